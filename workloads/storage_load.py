"""How fast is shared storage for one reader and for all nodes at once, for how long, and how late do small reads come?

Each node writes a file of its own, all at once; then one node alone reads for a window, then all nodes together, each
the file of another node, so that no node reads what it has just written. Small reads are timed while everybody reads.
The rate counts what has come when the window ends: a node that stalls is as slow as it stalled.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

from workloads.claim_meeting import Meeting, lower_median, meeting_place
from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    could_not,
    emit,
    identity,
    leave_on_sigterm,
    of_one_pod,
    parameters,
)

PARAMETERS = ("window_s", "file_mib", "streams", "small_read_bytes", "meeting_s")
POD = {"gpus": "none", "claims": ["shared"]}
BLOCK = 1 << 20
GB = 1e9
Mark = Tuple[float, int]
"""Seconds on this pod's clock, and bytes that came then."""


class Window:
    """Blocks that come until the window ends, on several streams."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self.until = self.began + seconds
        self.error = ""
        self._marks: List[List[Mark]] = []

    def open(self) -> bool:
        """Whether it has not ended."""
        return time.monotonic() < self.until and not self.error

    def stream(self) -> List[Mark]:
        """Where one stream notes what comes."""
        marks: List[Mark] = []
        self._marks.append(marks)
        return marks

    def rate(self, share_from: float = 0.0, share_to: float = 1.0) -> float:
        """GB/s over a part of the window."""
        first, last = (self.began + share * self.seconds for share in (share_from, share_to))
        moved = sum(size for marks in self._marks for at, size in marks if first <= at < last)
        return moved / (last - first) / GB

    @property
    def last_of_first_quartile(self) -> Optional[float]:
        """The rate in the last quarter of the window divided by that in the first; None where nothing came in it."""
        first = self.rate(0.0, 0.25)
        return self.rate(0.75, 1.0) / first if first > 0 else None


def write_all(path: str, size: int, window: Window) -> None:
    """Write the file, then over it from the start, until the window ends; at least once to its end."""
    data = os.urandom(BLOCK)
    marks = window.stream()
    try:
        with open(path, "wb", buffering=0) as file:
            written = 0
            while written < size or window.open():
                if written and written % size == 0:
                    os.fsync(file.fileno())
                    file.seek(0)
                file.write(data)
                written += BLOCK
                marks.append((time.monotonic(), BLOCK))
            os.fsync(file.fileno())
    except OSError as error:
        window.error = os.strerror(error.errno or 0)


def read_stream(path: str, first: int, window: Window) -> None:
    """Read blocks from `first` on, again from the start at the end of the file, until the window ends."""
    marks = window.stream()
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            at = first
            while window.open() and size >= BLOCK:
                if at + BLOCK > size:
                    at = 0
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                marks.append((time.monotonic(), len(os.pread(descriptor, BLOCK, at))))
                at += BLOCK
        finally:
            os.close(descriptor)
    except OSError as error:
        window.error = os.strerror(error.errno or 0)


def read_small(path: str, size: int, window: Window, taken: List[float]) -> None:
    """Time one small read after another, each at another place of the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            blocks = max(1, os.fstat(descriptor).st_size // size)
            number = 0
            while window.open():
                began = time.monotonic()
                os.pread(descriptor, size, (number * 7919 % blocks) * size)
                taken.append(time.monotonic() - began)
                number += 1
        finally:
            os.close(descriptor)
    except OSError as error:
        window.error = os.strerror(error.errno or 0)


def read_together(path: str, streams: int, small: int, seconds: float) -> Tuple[Window, List[float]]:
    """Large reads on several streams, and small ones beside them; the seconds that each of these took."""
    window = Window(seconds)
    taken: List[float] = []
    size = os.path.getsize(path) if os.path.exists(path) else 0
    threads = [
        threading.Thread(target=read_stream, args=(path, number * (size // streams) // BLOCK * BLOCK, window))
        for number in range(streams)
    ]
    threads.append(threading.Thread(target=read_small, args=(path, small, window, taken)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return window, taken


def io_wait() -> Optional[Tuple[float, float]]:
    """Ticks that the node's processors waited for I/O, and all their ticks; None where the kernel does not tell."""
    try:
        with open("/proc/stat", "r", encoding="ascii") as file:
            ticks = [float(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (ticks[4], sum(ticks)) if len(ticks) > 4 else None


def quantile(values: List[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Load:
    """One pod's side of the procedure and what it found."""

    meeting: Meeting
    met: Set[str]
    given: Mapping[str, Any]
    samples: List[Sample] = field(default_factory=list)
    facts: Dict[str, Fact] = field(default_factory=dict)

    def add(self, metric: str, value: Optional[float], unit: str, **at: Any) -> None:
        """One sample, where there is a value."""
        if value is not None:
            self.samples.append(Sample(metric, value, unit, at))

    def together(self, word: str, value: Any = None) -> Dict[str, Any]:
        """Say the word and wait for everybody's; what they said with it."""
        self.meeting.say(word, value)
        return self.meeting.wait(word, self.met)

    def data_of(self, node: str) -> str:
        """The file that a node writes."""
        return os.path.join(self.meeting.place, "data-" + node)

    def write(self) -> List[str]:
        """All nodes write; the nodes that have, in order."""
        self.together("write")
        window = Window(float(self.given["window_s"]))
        write_all(self.data_of(self.meeting.me), int(self.given["file_mib"]) * BLOCK, window)
        self.facts["write_error"] = window.error or "none"
        self.add("write_rate", window.rate(), "GB/s", nodes="all")
        self.add("last_of_first_quartile", window.last_of_first_quartile, "1", operation="write")
        return sorted(set(self.together("written")) | {self.meeting.me})

    def read(self, path: str) -> float:
        """All nodes read, large and small; the sum of their rates in GB/s."""
        self.together("read")
        before = io_wait()
        window, taken = self.read_window(path)
        after = io_wait()
        self.facts["read_error"] = window.error or "none"
        self.add("read_rate", window.rate(), "GB/s", nodes="all")
        self.add("last_of_first_quartile", window.last_of_first_quartile, "1", operation="read")
        for share in (0.5, 0.99) if taken else ():
            self.add("small_read", quantile(taken, share), "s", quantile=share)
        if before and after and after[1] > before[1]:
            self.add("io_wait", (after[0] - before[0]) / (after[1] - before[1]), "1")
        return self.compare(window.rate())

    def compare(self, rate: float) -> float:
        """This node's rate against those that its peers had in the same window; the sum of all."""
        told = {name: float(one) for name, one in self.together("rate", rate).items() if one is not None}
        others = [one for name, one in told.items() if name != self.meeting.me]
        if others and lower_median(others) > 0:
            self.add("read_rate_of_peers", rate / lower_median(others), "1")
            self.add("fairness", min(*others, rate) / max(*others, rate), "1")
        return sum(others) + rate

    def read_window(self, path: str) -> Tuple[Window, List[float]]:
        """One window of reading with the profile's streams."""
        given = self.given
        return read_together(path, int(given["streams"]), int(given["small_read_bytes"]), float(given["window_s"]))

    def read_alone(self, reader: str, path: str) -> float:
        """What one node reads while all others wait, in GB/s; 0 where it has not said."""
        if self.meeting.me == reader:
            window, _ = self.read_window(path)
            self.meeting.say("alone", window.rate())
            return window.rate()
        return float(self.meeting.wait("alone", {reader}).get(reader) or 0.0)


def measure(given: Mapping[str, Any]) -> Measurement:
    """The whole procedure; every phase begins when all pods have ended the one before."""
    who = identity()
    me = who["node"] or "by-hand"
    place = meeting_place("shared", who, "storage_under_load")
    meeting = Meeting(place, me, int(given.get("nodes", 1)), float(given["meeting_s"]))
    meeting.say("hello")
    met = set(meeting.wait("hello")) | {me}
    if len(met) < 2:
        meeting.leave()
        could_not("no other node came: load takes two at least; %s" % (meeting.trouble or "look at the others' pods"))
    meeting.within_s += float(given["window_s"])
    load = Load(meeting, met, given)
    ring = load.write()
    path = load.data_of(ring[(ring.index(me) + 1) % len(ring)])
    alone = load.read_alone(ring[0], path)
    total = load.read(path)
    if alone > 0:
        load.add("all_of_alone", total / alone, "1")
    load.add("nodes_met", float(len(met)), "count")
    load.together("end")
    if os.path.exists(load.data_of(me)):
        os.unlink(load.data_of(me))
    load.facts["meeting_error"] = meeting.trouble or "none"
    return of_one_pod(
        "storage_load",
        load.samples,
        load.facts,
        environment={"reader_alone": ring[0], "alone_gb_per_s": "%.6g" % alone},
    )


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure(parameters()))
