"""Does each RDMA adapter reach its rail on the other nodes, at what rate, and what do its error counters say of it?

Every pod of the sweep runs this at the same time, each on its own node; they meet over the shared claim. Each node
tries the next nodes in the order of their names, and moves bytes to the first of them, all nodes at once, so that every
adapter sends and receives at the same time. What concerns two nodes is told by the median or the best over the peers,
so that one bad node of several is not held against the good ones; with two nodes both carry it.
"""

from __future__ import annotations

import socket
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from workloads import rdma_counters
from workloads.claim_meeting import Meeting, lower_median, meeting_place
from workloads.contract import Fact, Measurement, Sample, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.rail_reach import Door, Nic, Reached, nics, open_doors, reach
from workloads.rail_transfer import FIRST_PORT, Amount, Receiver, at_once, send, tool

PARAMETERS = ("peers", "rounds", "reach_s", "message_bytes", "messages", "transfer_s", "settle_s", "meeting_s")
POD = {"gpus": "none", "rdma": True, "claims": ["shared"]}
NONE = "none"


class Round(NamedTuple):
    """One transfer of every adapter: Gb/s sent to a node and received from one; None where none was completed."""

    to: str
    sent: List[Optional[float]]
    received: List[Optional[float]]
    failures: List[str]


def measure(given: Dict[str, Any]) -> Measurement:
    """Meet, try the rails, then load them between two looks at the counters."""
    who = identity()
    me = who["node"] or "by-hand"
    own = nics()
    if not own:
        could_not("the pod has no RDMA adapter that libibverbs lists")
    amount = Amount(int(given["message_bytes"]), int(given["messages"]), float(given["transfer_s"]))
    place = meeting_place("shared", who, "rdma_rails")
    meeting = Meeting(place, me, int(given.get("nodes", 1)), float(given["meeting_s"]))
    doors = open_doors(me, own)
    hello = {"host": own_address(), "doors": [list(door) for door in doors]}
    meeting.say("hello", hello)
    met = {name: told for name, told in meeting.wait("hello").items() if told is not None or name == me}
    met[me] = hello
    if len(met) < 2:
        why = meeting.trouble or "no other node came within %g s" % meeting.within_s
        could_not("met nobody over the shared claim: %s" % why)
    order = sorted(met)
    after = order[order.index(me) + 1 :] + order[: order.index(me)]
    peers = {name: [Door(*door) for door in met[name]["doors"]] for name in after[: int(given["peers"])]}
    reached = reach(own, peers, float(given["reach_s"]))
    before = [(rdma_counters.read(nic.name, nic.port), rdma_counters.traffic_bytes(nic.name, nic.port)) for nic in own]
    how = tool()
    hosts = {name: str(told["host"]) for name, told in met.items()}
    rounds = transfers(meeting, own, order, hosts, reached, peers, how, amount, int(given["rounds"]))
    samples, facts = judged(own, peers, reached, rounds)
    samples += shares(samples, usual_rates([meeting.wait("sent-%d" % (n + 1), set(met)) for n in range(len(rounds))]))
    more, told = counted(meeting, own, before, rounds, amount, float(given["settle_s"]))
    meeting.say("end")
    meeting.wait("end", set(met))
    return Measurement(
        "rdma_rails",
        world_size=1,
        hosts=1,
        samples=(Sample("rails_tried", float(len(own)), "count"), *samples, *more),
        facts={**facts, **told, "rdma_transfer_tool": how},
        environment={"met": " ".join(order)},
        **who,
    )


def own_address() -> str:
    """The pod's own address, where perftest's two ends find each other; data never goes there."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        could_not("the pod does not know its own address: %s" % error)


def transfers(
    meeting: Meeting,
    own: List[Nic],
    order: List[str],
    hosts: Dict[str, str],
    reached: Reached,
    peers: Dict[str, List[Door]],
    how: str,
    amount: Amount,
    rounds: int,
) -> List[Round]:
    """In round r every node sends to the r-th after it, over all its adapters at once."""
    me = order.index(meeting.me)
    done = []
    for step in range(1, min(rounds, len(peers), len(order) - 1) + 1):
        to, source = order[(me + step) % len(order)], order[(me - step) % len(order)]
        receivers = [Receiver(how, nic, FIRST_PORT + step * len(own) + place, amount) for place, nic in enumerate(own)]
        meeting.wait_until(lambda these=receivers: all(one.listens() for one in these))  # type: ignore[misc]
        meeting.say("ready-%d" % step)
        meeting.wait("ready-%d" % step, {to})
        sent, failures = _send_all(own, to, hosts[to], peers[to], reached, how, amount, step)
        meeting.say("sent-%d" % step, sent)
        heard = meeting.wait("sent-%d" % step, {source}).get(source)
        for receiver in receivers:
            receiver.close()
        received = heard if isinstance(heard, list) and len(heard) == len(own) else [None] * len(own)
        done.append(Round(to, sent, received, failures))
    return done


def _send_all(
    own: List[Nic], to: str, host: str, doors: List[Door], reached: Reached, how: str, amount: Amount, step: int
) -> Tuple[List[Optional[float]], List[str]]:
    sent: List[Optional[float]] = [None] * len(own)
    failures: List[str] = []

    def one(place: int, nic: Nic) -> None:
        rate, why = send(how, nic, host, doors[place].address, FIRST_PORT + step * len(own) + place, amount)
        sent[place] = rate
        if rate is None:
            failures.append("%s to %s: %s" % (nic.name, to, why))

    jobs: List[Callable[[], None]] = []
    for place, nic in enumerate(own):
        # Where the rail is not connected at all, a transfer would only wait for its own timeout.
        if place < len(doors) and reached.get((place, to, place), True):
            jobs.append(lambda place=place, nic=nic: one(place, nic))  # type: ignore[misc]
    at_once(jobs)
    return sent, failures


def judged(
    own: List[Nic], peers: Dict[str, List[Door]], reached: Reached, rounds: List[Round]
) -> Tuple[List[Sample], Dict[str, Fact]]:
    """For each adapter, whether it reaches its rail at most peers, and its best rate each way."""
    samples, miswired, crossed = [], [], []
    for place, nic in enumerate(own):
        at = {"adapter": nic.name}
        mine = _rail(place, peers, reached, rounds)
        whole = bool(mine) and lower_median(mine) > 0
        others = [
            "%s of %d nodes" % (doors_name, count)
            for doors_name, count, good in _crossings(place, peers, reached)
            if good
        ]
        if not whole:
            where = ", and reaches " + " and ".join(others) if others else ""
            miswired.append("%s: reaches its rail on %d of %d nodes%s" % (nic.name, int(sum(mine)), len(mine), where))
        elif others:
            crossed.append("%s: %s" % (nic.name, " and ".join(others)))
        samples.append(Sample("rail_reached", float(whole), "count", at))
        for direction in ("sent", "received"):
            rates = [getattr(one, direction)[place] or 0.0 for one in rounds]
            samples.append(Sample("rdma_rate", max(rates, default=0.0), "Gb/s", {**at, "direction": direction}))
    failures = [why for one in rounds for why in one.failures]
    return samples, {
        "rails_miswired": "; ".join(miswired) or NONE,
        "rails_crossed": "; ".join(crossed) or NONE,
        "rdma_transfers_failed": "; ".join(failures)[:500] or NONE,
    }


def usual_rates(said: List[Dict[str, Any]]) -> List[float]:
    """For each rail, the lower median of the best rates at which the nodes that met have sent, Gb/s."""
    best: Dict[str, List[float]] = {}
    for told in said:
        for node, rates in told.items():
            if isinstance(rates, list):
                now = [float(rate or 0.0) for rate in rates]
                best[node] = [max(pair) for pair in zip(best.get(node, now), now)]
    return [lower_median(list(rates)) for rates in zip(*best.values())]


def shares(samples: List[Sample], usual: List[float]) -> List[Sample]:
    """Each rate as a share of what is usual on its rail; 0 where nothing was moved."""
    places = {name: place for place, name in enumerate(dict.fromkeys(str(one.at["adapter"]) for one in samples))}
    return [
        Sample("rdma_rate_share", one.value / usual[place] if usual[place] > 0 else 0.0, "1", one.at)
        for one in samples
        for place in [places[str(one.at["adapter"])]]
        if one.metric == "rdma_rate" and place < len(usual)
    ]


def _rail(place: int, peers: Dict[str, List[Door]], reached: Reached, rounds: List[Round]) -> List[float]:
    """1 for each peer whose adapter of the same place was reached, else 0; by transfers where ports have no address."""
    moved = {one.to: one.sent[place] is not None for one in rounds}
    found = []
    for peer, doors in peers.items():
        if (place, peer, place) in reached:
            found.append(float(reached[place, peer, place]))
        elif peer in moved:
            found.append(float(moved[peer]))
        elif place >= len(doors):
            found.append(0.0)
    return found


def _crossings(place: int, peers: Dict[str, List[Door]], reached: Reached) -> List[Tuple[str, int, bool]]:
    """The other rails: adapter's name, on how many nodes it was reached, whether that is at least half of them."""
    found = []
    for number in range(max(map(len, peers.values()), default=0)):
        tried = {peer: float(reached[place, peer, number]) for peer in peers if (place, peer, number) in reached}
        if number != place and tried:
            name = next(iter(peers[peer][number].adapter for peer in tried))
            found.append((name, int(sum(tried.values())), lower_median(list(tried.values())) > 0))
    return found


def counted(
    meeting: Meeting,
    own: List[Nic],
    before: List[Tuple[rdma_counters.Counts, Optional[int]]],
    rounds: List[Round],
    amount: Amount,
    settle_s: float,
) -> Tuple[List[Sample], Dict[str, Fact]]:
    """What the counters of each port have grown by, beside the bytes that went through it."""
    moved = [
        sum(amount.total_bytes for one in rounds for rate in (one.sent[place], one.received[place]) if rate is not None)
        for place in range(len(own))
    ]

    def share(place: int) -> float:
        now, was = rdma_counters.traffic_bytes(own[place].name, own[place].port), before[place][1]
        return (now - was) / moved[place] if moved[place] and now is not None and was is not None and now > was else 0.0

    # Counters are read from the hardware now and then; the last bytes may not be in them yet.
    settling = Meeting(meeting.place, meeting.me, meeting.size, settle_s)
    settling.wait_until(lambda: all(share(place) >= 1 for place in range(len(own)) if moved[place]))
    samples, grown, flapped = [], [], []
    for place, nic in enumerate(own):
        at = {"adapter": nic.name}
        growth = rdma_counters.growth(before[place][0], rdma_counters.read(nic.name, nic.port))
        samples += [
            Sample("rdma_errors", growth.total, "count", at),
            Sample("rdma_error_counters", float(growth.compared), "count", at),
            Sample("rdma_counted_share", share(place), "1", at),
        ]
        said = ["%s +%d" % item for item in sorted(growth.errors.items())]
        said += ["%s was set back" % name for name in growth.set_back]
        grown += ["%s: %s, with %d MiB" % (nic.name, ", ".join(said), moved[place] >> 20)] if said else []
        flapped += ["%s: %d times" % (nic.name, growth.flaps)] if growth.flaps else []
    return samples, {"rdma_errors_grown": "; ".join(grown) or NONE, "rdma_links_flapped": "; ".join(flapped) or NONE}


def main() -> None:
    """Run as the pod's program."""
    leave_on_sigterm()
    emit(measure(parameters()))


if __name__ == "__main__":
    main()
