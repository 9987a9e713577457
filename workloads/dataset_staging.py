"""Does the dataset reach shared and node-local storage, whole and at what rate, and does every node read it right?

The pods run at the same time, one a node, and meet over the shared claim. One node alone stages into the place from
which all then read; after that every node stages for itself, all at once, to the claim and to its own disk, and copies
the same objects plainly for comparison. Every object is verified from every node. A source that refuses is no measured
quality of the cluster: the program then says that it could not measure.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from workloads.claim_meeting import CLAIMS, Meeting, lower_median, meeting_place
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
from workloads.dataset_objects import BLOCK, Fetched, Refused, Wrong, fetch, generated, read_manifest

PARAMETERS = ("attempts", "source_timeout_s", "small_files", "small_file_bytes", "meeting_s", "staging_s")
POD = {"gpus": "none", "claims": ["shared"], "dataset": True}
SCRATCH = os.environ.get("GPUPROOF_SCRATCH", "/gpuproof/scratch")
GB = 1e9
Items = Sequence[Mapping[str, Any]]


@dataclass
class Staging:
    """One pod's work and what it found."""

    meeting: Meeting
    items: Items
    attempts: int
    timeout_s: float
    samples: List[Sample] = field(default_factory=list)
    facts: Dict[str, Fact] = field(default_factory=dict)
    retries: int = 0

    @property
    def bytes(self) -> int:
        """Of the whole dataset."""
        return sum(int(item["bytes"]) for item in self.items)

    def add(self, metric: str, value: float, unit: str, **at: Any) -> None:
        """One sample."""
        self.samples.append(Sample(metric, value, unit, at))

    def stage(self, directory: str) -> Tuple[List[Fetched], str]:
        """All objects into a directory; what came, and the first thing that was wrong ("none")."""
        came: List[Fetched] = []
        for item in self.items:
            try:
                one = fetch(item, os.path.join(directory, item["name"]), CLAIMS, self.attempts, self.timeout_s)
            except Wrong as error:
                return came, str(error)
            came.append(one)
            self.retries += one.retries
        return came, "none"

    def timed(self, directory: str, **at: Any) -> Tuple[float, str]:
        """Stage and report; the rate in GB/s while bytes moved (0 where it failed), and what was wrong ("none")."""
        began = time.monotonic()
        came, error = self.stage(directory)
        seconds = time.monotonic() - began
        rate = self.bytes / seconds / GB if error == "none" else 0.0
        self.add("staged_rate", rate, "GB/s", **at)
        if came:
            self.add("first_byte", max(one.first_byte_s for one in came), "s", **at)
        self.add("half_published", float(half_published(directory, self.items)), "count", **at)
        moving_s = sum(one.moving_s for one in came)
        return self.bytes / moving_s / GB if error == "none" else 0.0, error


def measure(items: Items, given: Mapping[str, Any]) -> Measurement:
    """The whole procedure; every phase begins when all pods have ended the one before, or `staging_s` have passed."""
    who = identity()
    me = who["node"] or "by-hand"
    place = meeting_place("shared", who, "dataset_staging")
    meeting = Meeting(place, me, int(given.get("nodes", 1)), float(given["meeting_s"]))
    work = Staging(meeting, items, int(given["attempts"]), float(given["source_timeout_s"]))
    meeting.say("hello")
    met = set(meeting.wait("hello"))
    meeting.within_s = float(given["staging_s"])
    try:
        published = publish(work, os.path.join(place, "objects"), sorted(met))
        for_itself(work, os.path.join(place, "own", me), met)
        if published:
            read_back(work, published, met)
    except Refused as error:
        meeting.say("published", "the source refused")
        meeting.leave()
        could_not("the dataset cannot be had: %s; check [dataset], its address and its rights" % error)
    small_files(work, os.path.join(place, "small", me), int(given["small_files"]), int(given["small_file_bytes"]))
    meeting.say("end")
    meeting.wait("end", met)
    for leftover in ("own", "small"):
        shutil.rmtree(os.path.join(place, leftover, me), ignore_errors=True)
    work.add("nodes_met", float(len(met)), "count")
    work.add("retries", float(work.retries), "count")
    work.facts["meeting_error"] = meeting.trouble or "none"
    return of_one_pod(
        "dataset_staging", work.samples, work.facts, environment={"objects": str(len(items)), "bytes": str(work.bytes)}
    )


def publish(work: Staging, place: str, nodes: Sequence[str]) -> str:
    """One node stages alone into a directory from which all read; where it fails, the next one tries into another.

    The directory that was published; '' where nobody could. What this node says of its own attempt is a fact of it
    alone: a node is not to blame for another one's.
    """
    meeting = work.meeting
    said: Dict[str, Any] = {}
    parts = 0
    published = ""
    work.facts["published_error"] = "none"

    def ended() -> bool:
        nonlocal parts
        said.update(meeting.heard("published"))
        # No reader may ever see a part of an object.
        parts += half_published(directory, work.items)
        return leader in said

    for leader in nodes:
        directory = os.path.join(place, leader)
        if leader == meeting.me:
            _, error = work.timed(directory, nodes="one", destination="shared")
            work.facts["published_error"] = error
            meeting.say("published", error)
            said[leader] = error
        meeting.wait_until(ended)
        if said.get(leader) == "none":
            published = directory
            break
    work.add("partial_objects_seen", float(parts), "count")
    return published


def for_itself(work: Staging, directory: str, met: Any) -> None:
    """Every node at once: staging to the claim, a plain copy of the same, then staging to the node's own disk."""
    meeting = work.meeting
    meeting.say("shared")
    meeting.wait("shared", met)
    rate, error = work.timed(directory, nodes="all", destination="shared")
    meeting.say("plain")
    meeting.wait("plain", met)
    plain = plain_copy(work, directory + ".plain")
    if plain > 0 and error == "none":
        work.add("staged_of_plain_copy", rate / plain, "1")
    meeting.say("local")
    meeting.wait("local", met)
    _, local_error = work.timed(os.path.join(SCRATCH, meeting.me), nodes="all", destination="local")
    work.facts["staging_error"] = error
    work.facts["local_staging_error"] = local_error
    meeting.say("rate", rate)
    others = {name: float(value) for name, value in meeting.wait("rate", met).items() if name != meeting.me and value}
    if others:
        work.add("staged_rate_of_peers", rate / lower_median(list(others.values())), "1")


def plain_copy(work: Staging, directory: str) -> float:
    """The rate in GB/s of copying the same objects by the standard library's copy loop, nothing verified; 0 if not."""
    try:
        os.makedirs(directory, exist_ok=True)
        began = time.monotonic()
        for number, item in enumerate(work.items):
            with open(os.path.join(directory, str(number)), "wb") as out:
                copy_one(item, out, work.timeout_s)
                out.flush()
                os.fsync(out.fileno())
        return work.bytes / (time.monotonic() - began) / GB
    except (OSError, ValueError):
        return 0.0
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def copy_one(item: Mapping[str, Any], out: Any, timeout_s: float) -> None:
    """One object, whatever comes."""
    if "seed" in item:
        for block in generated(str(item["seed"]), int(item["bytes"])):
            out.write(block)
    elif "path" in item:
        with open(os.path.join(CLAIMS, str(item["storage"]), str(item["path"])), "rb") as source:
            shutil.copyfileobj(source, out, BLOCK)
    else:
        with urllib.request.urlopen(str(item["url"]), timeout=timeout_s) as answer:
            shutil.copyfileobj(answer, out, BLOCK)


def read_back(work: Staging, published: str, met: Any) -> None:
    """Every node reads and verifies every published object: cold as far as this node's cache goes, then warm."""
    meeting = work.meeting
    meeting.say("read")
    meeting.wait("read", met)
    for pass_ in ("cold", "warm"):
        right, seconds = 0, 0.0
        marks: List[Tuple[float, int]] = []
        for item in work.items:
            path = os.path.join(published, item["name"])
            if pass_ == "cold":
                forget_cached(path)
            began = time.monotonic()
            right += verify(path, item, marks)
            seconds += time.monotonic() - began
        work.add("verified_share", right / len(work.items), "1", cache=pass_)
        work.add("read_rate", work.bytes / seconds / GB, "GB/s", cache=pass_)
        if pass_ == "cold" and len(marks) > 3:
            work.add("last_of_first_quartile", quartile_ratio(marks), "1", cache=pass_)


def verify(path: str, item: Mapping[str, Any], marks: List[Tuple[float, int]]) -> bool:
    """Whether the file has the size and the sha256 of the manifest; `marks` gets when each block came, and its size."""
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb", buffering=0) as file:
            for block in iter(lambda: file.read(BLOCK), b""):
                digest.update(block)
                size += len(block)
                marks.append((time.monotonic(), len(block)))
    except OSError:
        return False
    return size == int(item["bytes"]) and digest.hexdigest() == str(item["sha256"])


def quartile_ratio(marks: Sequence[Tuple[float, int]]) -> float:
    """The rate over the last quarter of the blocks, divided by that over the first: below 1 where credit runs out."""
    quarter = max(1, len(marks) // 4)

    def rate(part: Sequence[Tuple[float, int]]) -> float:
        return sum(size for _, size in part[1:]) / max(part[-1][0] - part[0][0], 1e-9)

    first, last = marks[: quarter + 1], marks[-quarter - 1 :]
    return rate(last) / rate(first)


def half_published(directory: str, items: Items) -> int:
    """How many objects are visible under their name without having their size."""
    count = 0
    for item in items:
        try:
            count += os.stat(os.path.join(directory, item["name"])).st_size != item["bytes"]
        except OSError:
            continue
    return count


def forget_cached(path: str) -> None:
    """Ask the kernel to drop this file's pages: the next read comes from the storage as far as this node decides it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def small_files(work: Staging, directory: str, count: int, size: int) -> None:
    """Operations a second on many small files: created, read and removed one after another."""
    data = os.urandom(size)
    paths = [os.path.join(directory, "%06d" % number) for number in range(count)]

    def create(path: str) -> None:
        with open(path, "wb", buffering=0) as file:
            file.write(data)

    def read(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            file.read()

    try:
        os.makedirs(directory, exist_ok=True)
        for operation, act in (("create", create), ("read", read), ("unlink", os.unlink)):
            began = time.monotonic()
            for path in paths:
                act(path)
            work.add("small_files", count / (time.monotonic() - began), "1/s", operation=operation)
    except OSError as error:
        work.facts["small_files_error"] = os.strerror(error.errno or 0)
    else:
        work.facts["small_files_error"] = "none"


def handed_out() -> Items:
    """The objects of the dataset; could_not where the harness handed out none."""
    try:
        return read_manifest()
    except (OSError, ValueError) as error:
        could_not("the dataset's manifest cannot be read: %s" % type(error).__name__)


def main() -> None:
    """Run as the pod's program."""
    leave_on_sigterm()
    given = parameters()
    emit(measure(handed_out(), given))


if __name__ == "__main__":
    main()
