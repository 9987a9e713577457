"""Is the shared claim mounted here as large as it was asked to be, and on other nodes at the same time?

What each pod writes stays for `volume_remount`, whose pods come after these have gone.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Mapping

from workloads.claim_meeting import Meeting, claim_root, meeting_place
from workloads.contract import Fact, Measurement, Sample, emit, identity, leave_on_sigterm, of_one_pod, parameters

PARAMETERS = ("kept_bytes", "meeting_s")
POD = {"gpus": "none", "claims": ["shared"]}


def keep(meeting: Meeting, size: int) -> str:
    """Write what must be there for other pods later, and announce its sha256; the error, or "none"."""
    data = os.urandom(size)
    try:
        os.makedirs(os.path.join(meeting.place, "kept"), exist_ok=True)
        with open(os.path.join(meeting.place, "kept", meeting.me), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "none" if meeting.say("keeps", hashlib.sha256(data).hexdigest()) else meeting.trouble


def measure(given: Mapping[str, Any]) -> Measurement:
    """Size, company, and what is kept."""
    who = identity()
    nodes = int(given.get("nodes", 1))
    meeting = Meeting(meeting_place("shared", who, "storage_volumes"), who["node"], nodes, float(given["meeting_s"]))
    facts: Dict[str, Fact] = {"keep_error": keep(meeting, int(given["kept_bytes"]))}
    found = os.statvfs(claim_root("shared"))
    samples = [Sample("size_offered", float(found.f_frsize * found.f_blocks), "B", {"storage": "shared"})]
    if nodes > 1:
        others = set(meeting.wait("keeps")) - {meeting.me}
        samples.append(Sample("other_nodes_mounted", float(len(others)), "count", {"storage": "shared"}))
    return of_one_pod("volume_mount", samples, facts)


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure(parameters()))
