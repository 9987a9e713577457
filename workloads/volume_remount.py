"""Is what an earlier pod on another node wrote to the shared claim here now, when that pod has gone?

Runs after `volume_mount`: each pod reads what the next node of the ring was left by the pod that was there.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, List, Mapping

from workloads.claim_meeting import Meeting, meeting_place
from workloads.contract import Measurement, Sample, emit, identity, leave_on_sigterm, of_one_pod, parameters

PARAMETERS = ("kept_bytes", "meeting_s")
POD = {"gpus": "none", "claims": ["shared"]}


def measure(given: Mapping[str, Any]) -> Measurement:
    """1 where the other node's data is here as its pod left it, else 0; nothing where no other pod left any."""
    who = identity()
    meeting = Meeting(meeting_place("shared", who, "storage_volumes"), who["node"], 1, float(given["meeting_s"]))
    samples: List[Sample] = []
    ring = sorted(set(meeting.heard("keeps")) | {meeting.me})
    other = ring[(ring.index(meeting.me) + 1) % len(ring)]
    if other != meeting.me:
        samples.append(Sample("kept_after_move", float(is_kept(meeting, other)), "count", {"storage": "shared"}))
    return of_one_pod("volume_remount", samples, environment={"read_what_was_left_on": other})


def is_kept(meeting: Meeting, node: str) -> bool:
    """Whether the bytes that the node's earlier pod kept have the checksum that it told."""
    try:
        with open(os.path.join(meeting.place, "kept", node), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == meeting.heard("keeps").get(node)
    except OSError:
        return False


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure(parameters()))
