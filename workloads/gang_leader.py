"""The gang's coordinator: calls all agents, has them run an experiment, joins their answers, and says it line by line.

Owns one epoch's connections. It must not know why an experiment is run or what is good enough. Python 3.9 syntax,
standard library only.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from workloads.gang_ranks import slowest
from workloads.gang_wire import Channel, Disconnected, Refused
from workloads.line_stream import LineWriter

_CALL_S = 3.0
_BETWEEN_CALLS_S = 0.2
_GRACE_S = 6.0
"""An agent answers so long after the time limit of its ranks at the latest; one that does not is lost."""
_AFTER_A_DEATH_S = 1.0
_FIRST_PORT = 20000
_PORTS = 8000
_BEAT_S = 5.0


class Leader:
    """Obeys orders one by one; every answer goes to the line stream."""

    def __init__(self, secret: bytes, lines: LineWriter, hosts: Sequence[str], port: int) -> None:
        self._secret = secret
        self._lines = lines
        self._hosts = list(hosts)
        self._port = port
        self._epoch = 0
        self._agents: Dict[int, "_Agent"] = {}
        self._beating = False

    def obey(self, order: Mapping[str, Any]) -> None:
        """Do what an order says; it has been found to be genuine and new."""
        if int(order["epoch"]) > self._epoch:
            self._drop_all()
            self._epoch = int(order["epoch"])
        self._beat()
        kind = order["kind"]
        if kind == "assemble":
            self._assemble(order)
        elif kind == "experiment":
            self._experiment(order)
        else:
            raise ValueError("an order of the kind %r" % kind)

    def _beat(self) -> None:
        """A line every few seconds: a leader that is silent for long is lost, and the harness must be able to tell."""

        def beat() -> None:
            while True:
                time.sleep(_BEAT_S)
                self._lines.write({"alive": self._epoch})

        if not self._beating:
            self._beating = True
            threading.Thread(target=beat, daemon=True).start()

    # -- assembling ----------------------------------------------------------------------------------------------------

    def _assemble(self, order: Mapping[str, Any]) -> None:
        """Call every agent until it answers or the deadline has passed; say who is there, and who is not and why."""
        until = time.monotonic() + float(order["deadline_s"])
        wanted = [int(index) for index in order["indexes"]]
        missing: Dict[int, List[str]] = {}
        lock = threading.Lock()

        def call(index: int) -> None:
            why = self._call(index, until)
            if why:
                with lock:
                    known = index in self._agents and self._agents[index].broken
                    missing[index] = ["broken" if known else "unreached", why]

        _all_at_once(call, wanted)
        for index, agent in sorted(self._agents.items()):
            self._lines.write({"hello": dict(agent.hello, index=index)})
        said = {str(index): why for index, why in sorted(missing.items())}
        self._lines.write(
            {"assembled": len(self._agents), "epoch": self._epoch, "missing": said, "number": order["number"]}
        )

    def _call(self, index: int, until: float) -> str:
        """Connect to one agent; "" or why it could not be done by the deadline."""
        why = "never called"
        while True:
            try:
                channel = Channel.call((self._hosts[index], self._port), self._secret, _CALL_S)
                channel.send({"epoch": self._epoch})
                hello = channel.receive()
                channel.settimeout(0)
                agent = self._agents[index] = _Agent(channel, hello)
                return agent.unready(until)
            except Refused as error:
                why = "what answers there does not know the run's secret: %s" % error
            except (OSError, ValueError) as error:
                why = "%s: %s" % (type(error).__name__, error)
            if time.monotonic() + _BETWEEN_CALLS_S > until:
                return why
            time.sleep(_BETWEEN_CALLS_S)

    # -- experiments ---------------------------------------------------------------------------------------------------

    def _experiment(self, order: Mapping[str, Any]) -> None:
        """All groups at the same time; one line for each group, in the order given, then one that says it is over."""
        groups: List[List[int]] = [[int(index) for index in group] for group in order["groups"]]
        answers: Dict[int, Dict[str, Any]] = {}

        def run(place: int) -> None:
            answers[place] = self._group(order, groups[place])

        _all_at_once(run, range(len(groups)))
        for place, group in enumerate(groups):
            self._lines.write({"group": group, "number": order["number"], "place": place, "result": answers[place]})
        self._lines.write({"over": order["number"], "groups": len(groups), "epoch": self._epoch})

    def _group(self, order: Mapping[str, Any], group: List[int]) -> Dict[str, Any]:
        local = int(order["ranks_per_node"])
        absent = [index for index in group if index not in self._agents or self._agents[index].lost]
        if absent:
            return {"outcome": "broken", "nodes": {str(index): {"outcome": "lost"} for index in absent}}
        agents = {index: self._agents[index] for index in group}
        # Where one member has no working adapter the ranks of its group can meet on the pods' own network only.
        rdma = all(_active(agent) for agent in agents.values())
        first = agents[group[0]]
        port = _FIRST_PORT + (self._epoch * 997 + int(order["number"])) % _PORTS
        common = dict(
            order,
            world=local * len(group),
            local_ranks=local,
            master=[first.hello["ip"], port],
            network="rdma" if rdma else "pod",
            experiment=order["number"],
        )
        common.pop("groups")
        timeout_s = float(order["timeout_s"])
        deadline = time.monotonic() + timeout_s + _GRACE_S
        for place, index in enumerate(group):
            agents[index].start(dict(common, first_rank=place * local))
        self._wait(agents, int(order["number"]), deadline)
        return self._joined(agents, local)

    def _wait(self, agents: Mapping[int, "_Agent"], number: int, deadline: float) -> None:
        """Until all have answered; once one has failed, the others wait for it in vain: a moment, then the end."""
        while True:
            open_ones = [agent for agent in agents.values() if not agent.answered(number)]
            if not open_ones or time.monotonic() >= deadline:
                return
            failed = [agent for agent in agents.values() if agent.failed(number)]
            if failed and deadline - time.monotonic() > _AFTER_A_DEATH_S + _GRACE_S:
                deadline = time.monotonic() + _AFTER_A_DEATH_S + _GRACE_S
                time.sleep(_AFTER_A_DEATH_S)
                for agent in open_ones:
                    agent.abort()
            open_ones[0].wait(0.05)

    def _joined(self, agents: Mapping[int, "_Agent"], local: int) -> Dict[str, Any]:
        parts = {index: agent.result() for index, agent in agents.items()}
        outcomes = {str(part["outcome"]) for part in parts.values()}
        measured = outcomes == {"measured"}
        # What is worst says what happened: the others only waited for it.
        order = ("lost", "broken", "died", "hung", "aborted", "measured")
        found: Dict[str, Any] = {
            "outcome": next(word for word in order if word in outcomes),
            "world": _one_of([part.get("world", []) for part in parts.values()]),
            "hosts": _one_of([part.get("hosts", []) for part in parts.values()]),
            "ranks_per_node": local,
            "results": slowest([part["results"] for part in parts.values()]) if measured else [],
        }
        keep = (
            "outcome",
            "rdma",
            "interfaces",
            "nccl",
            "errors",
            "refused",
            "versions",
            "dead_rank",
            "exit_code",
            "said",
        )
        nodes = {}
        for index, part in parts.items():
            nodes[str(index)] = {key: part[key] for key in keep if key in part}
            if not measured:
                nodes[str(index)]["census"] = part.get("census", {})
            nodes[str(index)]["wrong"] = sum(int(result["wrong"]) for result in part.get("results", []))
        found["nodes"] = nodes
        return found

    def _drop_all(self) -> None:
        for agent in self._agents.values():
            agent.close()
        self._agents = {}


class _Agent:
    """One agent as the leader sees it."""

    def __init__(self, channel: Channel, hello: Dict[str, Any]) -> None:
        self._channel = channel
        self.hello = hello
        self.lost = ""
        self.ready = self.broken = False
        self._changed = threading.Condition()
        self._result: Optional[Tuple[int, Dict[str, Any]]] = None
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, order: Mapping[str, Any]) -> None:
        """Have it run ranks."""
        with self._changed:
            self._result = None
        try:
            self._channel.send({"run": order})
        except OSError as error:
            self._lose("%s: %s" % (type(error).__name__, error))

    def abort(self) -> None:
        """Have it kill its ranks."""
        try:
            self._channel.send({"abort": True})
        except OSError as error:
            self._lose(str(error))

    def close(self) -> None:
        """Drop the connection."""
        self._channel.close()

    def unready(self, until: float) -> str:
        """Wait until it can run ranks; why it cannot by then, or ""."""
        with self._changed:
            while not (self.ready or self.lost):
                left = until - time.monotonic()
                if left <= 0:
                    return "it has not imported torch by the deadline"
                self._changed.wait(left)
            return self.lost

    def wait(self, seconds: float) -> None:
        """Until something changes, or so long."""
        with self._changed:
            self._changed.wait(seconds)

    def answered(self, number: int) -> bool:
        """Whether it has answered this experiment, or never will."""
        with self._changed:
            return bool(self.lost) or (self._result is not None and self._result[0] == number)

    def failed(self, number: int) -> bool:
        """Whether it has answered without a measurement."""
        with self._changed:
            if self.lost:
                return True
            return self._result is not None and self._result[0] == number and self._result[1]["outcome"] != "measured"

    def result(self) -> Dict[str, Any]:
        """What it answered last; where it did not, why."""
        with self._changed:
            if self._result is not None:
                return self._result[1]
            return {"outcome": "lost", "said": self.lost or "the agent did not answer in time", "results": []}

    def _listen(self) -> None:
        while True:
            try:
                message = self._channel.receive()
            except (Refused, Disconnected, OSError, ValueError) as error:
                self._lose("%s: %s" % (type(error).__name__, error))
                return
            if "ready" in message:
                with self._changed:
                    self.ready = True
                    self.broken = bool(message["failed"])
                    self.lost = self.lost or str(message["failed"])
                    self._changed.notify_all()
            if "result" in message:
                result = message["result"]
                rdma = result.get("rdma", {})
                if rdma.get("ports"):
                    self.hello["ports"] = [["", place < rdma["active"], ""] for place in range(rdma["ports"])]
                with self._changed:
                    self._result = (int(message["experiment"]), result)
                    self._changed.notify_all()

    def _lose(self, why: str) -> None:
        with self._changed:
            self.lost = self.lost or why
            self._changed.notify_all()


def _active(agent: _Agent) -> bool:
    return any(bool(port[1]) for port in agent.hello.get("ports") or [])


def _one_of(found: List[List[int]]) -> int:
    """The one count that all ranks of all nodes report; 0 where they do not agree or some report none."""
    values = {value for counts in found for value in counts}
    return values.pop() if len(values) == 1 and all(found) else 0


def _all_at_once(work: Any, items: Sequence[int]) -> None:
    threads = [threading.Thread(target=work, args=(item,), daemon=True) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
