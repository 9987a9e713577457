"""A Job's status without ids, times and names, so that histories of two clusters can be compared.

`ready` is left out: how many pods a batched sync sees ready at once is chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

COUNTERS = ("active", "terminating", "succeeded", "failed", "completedIndexes", "failedIndexes")
POD_NAME = re.compile(r"\S+/j-(\d+)-[a-z0-9]{5}")


def summary(status: dict[str, Any]) -> dict[str, Any]:
    """What a status says, as far as it is the same on each run."""
    said = {name: status[name] for name in COUNTERS if name in status}
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted:
        said["uncounted"] = {kind: len(uids) for kind, uids in sorted(uncounted.items())}
    conditions = status.get("conditions") or []
    if conditions:
        said["conditions"] = [
            [c["type"], c["status"], c["reason"], POD_NAME.sub(r"NS/j-\1-*", c["message"])] for c in conditions
        ]
    said["started"] = "startTime" in status
    said["completed"] = "completionTime" in status
    return said


def collapsed(summaries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sequence without repeats."""
    kept: list[dict[str, Any]] = []
    for each in summaries:
        if not kept or kept[-1] != each:
            kept.append(each)
    return kept
