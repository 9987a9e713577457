"""One gang on a cluster, ordered about: who leads, what is asked, and what its lines say came of it.

Owns orders, the leader's line stream, and the change of the leader. It must not know a limit or what an experiment is
for. Requests do not grow with the nodes: one annotation an order, beside what its pods cost.
"""

from __future__ import annotations

import itertools
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from gpuproof.cluster.port import PODS, Cluster, ClusterError
from gpuproof.failure import JobFailure, Reason
from gpuproof.gang_pods import GangPods, Member
from gpuproof.gang_wire import GroupLine, GroupPart, Hello
from gpuproof.inventory import Inventory
from gpuproof.line_stream import LineStream, LineStreamError
from gpuproof.manifests import MEASURE, ORDER_ANNOTATION, Renderer
from gpuproof.visits import SweepRequest
from workloads.gang_wire import sign_order

_Said = TypeVar("_Said", Hello, GroupLine)
_TICK_S = 0.1
_SILENT_S = 30.0
"""The leader says a word every five seconds: after so long without one it is lost."""
_REASSEMBLE_S = 10.0
_ORDER_GRACE_S = 30.0
"""So much longer than the ranks' time limit may an experiment take until the leader has said all of it."""


@dataclass(frozen=True)
class GangRequest:
    """Who is to be in the gang, on whose behalf, and within which time."""

    sweep: SweepRequest
    assemble_timeout_s: float


@dataclass(frozen=True)
class Assembly:
    """Who came, and why each of the others did not."""

    members: Mapping[str, Member]
    missing: Mapping[str, JobFailure]

    @property
    def whole(self) -> bool:
        """Whether everybody is there."""
        return not self.missing


@dataclass(frozen=True)
class Order:
    """One experiment: disjoint groups of nodes at the same time, and what their ranks are to do."""

    groups: tuple[tuple[str, ...], ...]
    ranks_per_node: int
    timeout_s: float
    params: Mapping[str, Any]


class GangError(Exception):
    """The gang cannot go on, and nobody can say more about any node."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass
class GangSession:
    """Call `assemble` once, `run` as often as need be, and always `close`. For one thread; `stop` is anybody's."""

    cluster: Cluster
    renderer: Renderer
    inventory: Inventory
    request: GangRequest
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    refused: list[str] = field(default_factory=list)
    """Orders that the leader did not obey: nobody of ours gave them, or it had had them."""

    def __post_init__(self) -> None:
        request = self.request.sweep
        self.pods = GangPods(self.cluster, self.renderer, self.inventory, request, self.stop, self.clock)
        self._key = secrets.token_hex(32)
        self._members: dict[str, Member] = {}
        self._hellos: dict[str, Hello] = {}
        self._leader = ""
        self._epoch = 0
        self._numbers = itertools.count(1)
        self._stream: LineStream | None = None
        self._lines: queue.SimpleQueue[dict[str, Any] | LineStreamError | None] = queue.SimpleQueue()

    @property
    def lost(self) -> dict[str, JobFailure]:
        """Nodes that did not come or are no longer there, and why."""
        return self.pods.lost

    def assemble(self, *, though_not_whole: bool = True) -> Assembly:
        """Bring the gang up. Never raises for what the cluster does: that is why nodes are missing.

        Nobody is ordered to lead where somebody is missing, unless `though_not_whole`.
        """
        self._members = self.pods.bring_up(self._key)
        self._refuse_interrupted()
        missing = dict(self.lost)
        if self._members and (though_not_whole or not missing):
            missing |= self._lead(self.request.assemble_timeout_s)
        return Assembly(dict(self._members), missing)

    # -- leading -------------------------------------------------------------------------------------------------------

    def _lead(self, deadline_s: float) -> dict[str, JobFailure]:
        """Have the first member that can lead call all others; who does not answer it, and why."""
        while True:
            candidates = [node for node in self._in_order() if node not in self.lost]
            if not candidates:
                raise GangError(JobFailure(Reason.NODE_LOST, "no pod of the gang is left to lead it"))
            self._follow(candidates[0])
            try:
                return self._call_together(deadline_s)
            except _LeaderLostError as error:
                self._lose_leader(error)

    def _in_order(self) -> list[str]:
        return sorted(self._members, key=lambda node: self._members[node].index)

    def _follow(self, node: str) -> None:
        self._unfollow()
        self._leader, self._epoch = node, self._epoch + 1
        self._lines = queue.SimpleQueue()
        self._stream = LineStream(self.cluster, self.renderer.namespace, self._members[node].pod, MEASURE)
        threading.Thread(target=_pump, args=(self._stream, self._lines), name="gang-lines", daemon=True).start()

    def _unfollow(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _call_together(self, deadline_s: float) -> dict[str, JobFailure]:
        indexes = [self._members[node].index for node in self._in_order() if node not in self.lost]
        number = self._order("assemble", {"indexes": indexes, "deadline_s": deadline_s})
        by_index = {member.index: node for node, member in self._members.items()}
        until = self.clock() + deadline_s + _ORDER_GRACE_S
        while True:
            line = self._next(until)
            if "hello" in line:
                hello = _checked(Hello, line["hello"])
                if by_index.get(hello.index) != hello.node:
                    said = f"the pod with index {hello.index} says it is on {hello.node}, the API server says otherwise"
                    raise GangError(JobFailure(Reason.FOREIGN_MEASUREMENT, said))
                self._hellos[hello.node] = hello
            elif line.get("number") == number and "assembled" in line:
                said = line.get("missing", {})
                return {by_index.get(int(index), "?"): _unreached(*map(str, why)) for index, why in said.items()}

    def _order(self, kind: str, content: Mapping[str, Any]) -> int:
        number = next(self._numbers)
        order = {**content, "run": self.renderer.run_id, "epoch": self._epoch, "number": number, "kind": kind}
        text = sign_order(self._key.encode("ascii"), order)
        pod = self._members[self._leader].pod
        try:
            self.cluster.annotate(PODS, pod, {ORDER_ANNOTATION: text}, namespace=self.renderer.namespace)
        except ClusterError as error:
            if error.status == 404:
                raise _LeaderLostError(JobFailure(Reason.POD_DELETED, f"{pod} is gone")) from error
            raise GangError(JobFailure(error.reason, f"no order reaches the gang: {error.message}")) from error
        return number

    def _next(self, until: float) -> dict[str, Any]:
        """The leader's next line; what the watches say meanwhile is taken in."""
        heard = self.clock()
        while True:
            try:
                line = self._lines.get(timeout=_TICK_S)
            except queue.Empty:
                self._look_after_the_leader(heard, until)
                continue
            if isinstance(line, LineStreamError):
                raise _LeaderLostError(JobFailure(line.reason, line.message)) from line
            if line is None:
                raise _LeaderLostError(JobFailure(Reason.NONZERO_EXIT, f"the agent on {self._leader} has ended"))
            heard = self.clock()
            if "refused" in line:
                self.refused.append(str(line["refused"]))
            elif "alive" not in line:
                return line

    def _look_after_the_leader(self, heard: float, until: float) -> None:
        self._refuse_interrupted()
        self.pods.listen(0.0)
        if self._leader in self.lost:
            raise _LeaderLostError(self.lost[self._leader])
        now = self.clock()
        if now - heard > _SILENT_S or now > until:
            what = f"says nothing for {now - heard:.0f} s" if now <= until else "is late with its answer"
            said = f"the pod that leads the gang {what}; look at {self._leader}"
            raise _LeaderLostError(JobFailure(Reason.NODE_LOST, said))

    def _refuse_interrupted(self) -> None:
        if self.stop.is_set():
            raise GangError(JobFailure(Reason.INTERRUPTED, "the run was interrupted before this was known"))

    def _lose_leader(self, error: _LeaderLostError) -> None:
        """The next index leads; what the API says of the lost one is worth more than a broken stream."""
        self.pods.listen(0.0)
        said = f"{self._leader} led the gang and was lost: {error.failure.message}"
        self.lost.setdefault(self._leader, JobFailure(error.failure.reason, said, error.failure.evidence))

    # -- experiments ---------------------------------------------------------------------------------------------------

    @property
    def present(self) -> tuple[str, ...]:
        """Members that are there, by index."""
        return tuple(node for node in self._in_order() if node not in self.lost)

    def hello(self, node: str) -> Hello | None:
        """How the node's agent introduced itself."""
        return self._hellos.get(node)

    def run(self, order: Order) -> tuple[GroupPart, ...]:
        """What became of each group, in the order given; a lost leader is replaced and the experiment run again."""
        while True:
            try:
                return self._run(order)
            except _LeaderLostError as error:
                self._lose_leader(error)
                for node, failure in self._lead(_REASSEMBLE_S).items():
                    self.lost.setdefault(node, failure)

    def _run(self, order: Order) -> tuple[GroupPart, ...]:
        groups = [[self._members[node].index for node in group] for group in order.groups]
        content = {
            **order.params,
            "groups": groups,
            "ranks_per_node": order.ranks_per_node,
            "timeout_s": order.timeout_s,
            "seed": secrets.randbelow(1 << 40),
        }
        number = self._order("experiment", content)
        until = self.clock() + order.timeout_s + _ORDER_GRACE_S
        found: dict[int, GroupPart] = {}
        while True:
            line = self._next(until)
            if line.get("number") == number and "group" in line:
                part = _checked(GroupLine, line)
                if list(part.group) != groups[part.place]:
                    said = f"the leader answers for the group {part.group}, asked was {groups[part.place]}"
                    raise GangError(JobFailure(Reason.FOREIGN_MEASUREMENT, said))
                found[part.place] = part.result
            elif line.get("over") == number:
                if sorted(found) != list(range(len(groups))):
                    said = f"{len(found)} of {len(groups)} groups were answered for"
                    raise GangError(JobFailure(Reason.TRUNCATED_MEASUREMENT, said))
                return tuple(found[place] for place in range(len(groups)))

    def pod(self, node: str) -> str:
        """The node's pod."""
        return self._members[node].pod

    def index(self, node: str) -> int:
        """The node's pod's index."""
        return self._members[node].index

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the GPUs go. Raises nothing of the cluster's."""
        self._unfollow()
        self.pods.close()


class _LeaderLostError(Exception):
    """The pod that leads is lost; the next one can."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _pump(stream: LineStream, lines: queue.SimpleQueue[dict[str, Any] | LineStreamError | None]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except LineStreamError as error:
        lines.put(error)
    else:
        lines.put(None)


def _checked(model: type[_Said], value: Any) -> _Said:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"a line of the gang's leader is not what it must be: {where}: {first['msg']}"
        raise GangError(JobFailure(Reason.MALFORMED_MEASUREMENT, said)) from error


def _unreached(kind: str, why: str) -> JobFailure:
    if kind == "broken":
        return JobFailure(Reason.NONZERO_EXIT, f"the pod runs, and no rank can be started in it: {why}; mend the image")
    said = f"the pod runs, but the gang's leader does not reach the agent in it: {why}"
    return JobFailure(Reason.NODE_LOST, f"{said}; look at the pod network between the nodes")
