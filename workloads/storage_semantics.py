"""What does a shared claim do on this node, and between it and the others, that checkpoints and datasets rely on?

Every pod of the sweep runs this at the same time, each on its own node; they meet over the claim itself. What concerns
two nodes is told by the median over the peers, so that one bad node of several is not held against the good ones; with
two nodes both carry it. Visibility is timed as a round trip on one clock, as clocks of different nodes cannot be
compared: it is an upper bound of the delay either way.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from typing import Callable, Dict, List, Optional, Set, Tuple

from workloads.claim_meeting import Meeting, claim_root, lower_median, meeting_place
from workloads.contract import Fact, Measurement, Sample, emit, identity, leave_on_sigterm, of_one_pod, parameters
from workloads.storage_capabilities import probe_all

PARAMETERS = ("directory_entries", "race_rounds", "payload_bytes", "meeting_s")
POD = {"gpus": "none", "claims": ["shared"]}
NEVER = float("inf")


def measure(nodes: int, entries: int, rounds: int, payload_bytes: int, meeting_s: float) -> Measurement:
    """Capabilities of this node's mount first, then those between nodes."""
    who = identity()
    me = who["node"] or "by-hand"
    place = meeting_place("shared", who, "storage_semantics")
    facts: Dict[str, Fact] = dict(probe_all(os.path.join(place, "own", me), entries))
    samples: List[Sample] = []
    meeting = Meeting(place, me, nodes, meeting_s)
    met: Set[str] = {me}
    if nodes > 1:
        met = between(meeting, rounds, payload_bytes, samples, facts)
    return of_one_pod(
        "storage_semantics",
        samples,
        facts,
        environment={"file_system": file_system(claim_root("shared")), "met": " ".join(sorted(met))},
    )


def between(
    meeting: Meeting, rounds: int, payload_bytes: int, samples: List[Sample], facts: Dict[str, Fact]
) -> Set[str]:
    """Everything that takes two nodes; the nodes that met, this one included."""
    payload = os.urandom(payload_bytes)
    written = _outcome_of_payload(meeting, payload)
    meeting.say("hello", written)
    met = set(meeting.wait("hello")) | {meeting.me}
    # Who waited in vain for somebody comes later: what is timed between nodes begins when all of them are there.
    meeting.say("ready")
    meeting.wait("ready", met)
    peers = sorted(met - {meeting.me})
    trips = round_trips(meeting, peers)
    wrong = {peer: wrong_payload(meeting, peer) for peer in peers}
    granted = exclusions(meeting, peers)
    facts["race_error"] = races(meeting, rounds)
    meeting.say("end")
    meeting.wait("end", met)
    samples.append(Sample("nodes_met", float(len(met)), "count"))
    for metric, unit, by_peer in (
        ("visibility_round_trip", "s", trips),
        ("peer_content_wrong", "count", wrong),
        ("peer_lock_granted", "count", granted["flock"]),
        ("peer_record_lock_granted", "count", granted["record_lock"]),
        ("peer_create_granted", "count", granted["create"]),
    ):
        values = list(by_peer.values())
        samples.append(Sample(metric, lower_median(values) if values else NEVER, unit, {"statistic": "median"}))
    samples += [
        Sample("visibility_round_trip_pair", trip, "s", {"from": meeting.me, "to": peer})
        for peer, trip in trips.items()
    ]
    facts["peers_with_wrong_content"] = ", ".join(peer for peer in peers if wrong[peer]) or "none"
    facts["meeting_error"] = meeting.trouble or "none"
    return met


def _outcome_of_payload(meeting: Meeting, payload: bytes) -> str:
    """Write this node's payload and answer its sha256; '' where it could not be written."""
    try:
        os.makedirs(os.path.join(meeting.place, "payload"), exist_ok=True)
        with open(os.path.join(meeting.place, "payload", meeting.me), "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return ""
    return hashlib.sha256(payload).hexdigest()


def wrong_payload(meeting: Meeting, peer: str) -> float:
    """1 where the peer's payload cannot be read here as its own checksum says, else 0."""
    wanted = meeting.heard("hello").get(peer)
    try:
        with open(os.path.join(meeting.place, "payload", peer), "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return 1.0
    return float(found != wanted)


def round_trips(meeting: Meeting, peers: List[str]) -> Dict[str, float]:
    """Seconds from writing a file until each peer's answer to it is seen here; infinite where it never was.

    While it waits, this pod answers the others; it goes on until all peers say that they are done.
    """
    began = time.monotonic()
    meeting.say("probe")
    trips = dict.fromkeys(peers, NEVER)
    answered: Set[str] = set()
    done = False

    def finished() -> bool:
        nonlocal done
        for peer in set(meeting.heard("probe")) & set(peers) - answered:
            if meeting.say("answer-to-%s" % peer):
                answered.add(peer)
        for peer in meeting.heard("answer-to-%s" % meeting.me):
            if trips.get(peer) == NEVER:
                trips[peer] = time.monotonic() - began
        if not done and NEVER not in trips.values():
            meeting.say("answered")
            done = True
        return done and set(peers) <= set(meeting.heard("answered"))

    meeting.wait_until(finished)
    return trips


def exclusions(meeting: Meeting, peers: List[str]) -> Dict[str, Dict[str, float]]:
    """By what excludes others, for each peer: 1 where this node was granted what that peer had at that moment, else 0.

    A flock, a record lock (fcntl), and the creation of a file that must be new. Infinite for a peer that had nothing
    itself, and where the attempt ended in another way than a refusal: nothing was found out about it.
    """
    everybody = {*peers, meeting.me}
    held = {way: _taken(take, _exclusive_path(meeting, way, meeting.me)) for way, take in _WAYS.items()}
    meeting.say("holds", [way for way, descriptor in held.items() if descriptor is not None and descriptor >= 0])
    holders = meeting.wait("holds", everybody)
    granted: Dict[str, Dict[str, float]] = {way: {} for way in _WAYS}
    for way, take in _WAYS.items():
        for peer in peers:
            granted[way][peer] = NEVER
            if way in (holders.get(peer) or []):
                found = _taken(take, _exclusive_path(meeting, way, peer))
                if found is not None:
                    granted[way][peer] = float(found >= 0)
                    _close(found)
    meeting.say("tried")
    meeting.wait("tried", everybody)
    for descriptor in held.values():
        _close(descriptor)
    return granted


def _exclusive_path(meeting: Meeting, way: str, node: str) -> str:
    return os.path.join(meeting.place, "%s-%s" % (way, node))


def _flock(path: str) -> int:
    return _locked(path, lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))


def _record_lock(path: str) -> int:
    return _locked(path, lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))


def _locked(path: str, lock: Callable[[int], None]) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _new_file(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


_WAYS: Dict[str, Callable[[str], int]] = {"flock": _flock, "record_lock": _record_lock, "create": _new_file}
_REFUSED = (errno.EAGAIN, errno.EACCES, errno.EEXIST)


def _taken(take: Callable[[str], int], path: str) -> Optional[int]:
    """The open file with which it was granted, -1 where it was refused as somebody has it, None for another error."""
    try:
        return take(path)
    except OSError as error:
        return -1 if error.errno in _REFUSED else None


def _close(descriptor: Optional[int]) -> None:
    if descriptor is not None and descriptor >= 0:
        os.close(descriptor)


def races(meeting: Meeting, rounds: int) -> str:
    """All nodes make the same directories and rename over the same file at once; the first thing that went wrong."""
    target = os.path.join(meeting.place, "race", "target")
    for number in range(rounds):
        try:
            os.makedirs(os.path.join(meeting.place, "race", str(number), "a", "b"), exist_ok=True)
            own = "%s.%s" % (target, meeting.me)
            text = "%s %d\n" % (meeting.me, number)
            with open(own, "w", encoding="ascii") as file:
                file.write(text)
            os.rename(own, target)
            with open(target, "r", encoding="ascii") as file:
                found = file.read()
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "error")
            return "%s in round %d: %s" % (code, number, os.strerror(error.errno or 0))
        if not found.endswith("\n"):
            return "a reader saw half of a renamed file in round %d" % number
    return "none" if rounds else "no round was asked for"


def file_system(path: str) -> str:
    """The type of the file system at a path as the kernel's mount table names it."""
    found: Tuple[int, str] = (-1, "unknown")
    try:
        with open("/proc/self/mounts", "r", encoding="utf-8") as table:
            for line in table:
                words = line.split(" ")
                if path == words[1] or path.startswith(words[1].rstrip("/") + "/"):
                    found = max(found, (len(words[1]), words[2]))
    except OSError:
        pass
    return found[1]


def main() -> None:
    """Run as the pod's program."""
    leave_on_sigterm()
    given = parameters()
    emit(
        measure(
            nodes=int(given.get("nodes", 1)),
            entries=int(given["directory_entries"]),
            rounds=int(given["race_rounds"]),
            payload_bytes=int(given["payload_bytes"]),
            meeting_s=float(given["meeting_s"]),
        )
    )


if __name__ == "__main__":
    main()
