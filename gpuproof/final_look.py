"""What became of the nodes by the end of a run: a verdict speaks for a node only if it is still the one that was asked.

Pure: two looks at the same nodes in, what changed out. It must not know a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.failure import JobFailure, Reason
from gpuproof.inventory import Node


def changes(
    before: Mapping[str, Node], after: Mapping[str, Node], labels: Mapping[str, str], gpus: int
) -> dict[str, JobFailure]:
    """By name, why a node that was asked is no longer what was judged; `after` are all nodes of the cluster."""
    found = {name: _change(node, after.get(name), labels, gpus) for name, node in before.items()}
    return {name: failure for name, failure in found.items() if failure is not None}


def _change(was: Node, now: Node | None, labels: Mapping[str, str], gpus: int) -> JobFailure | None:
    name = was.name
    if now is None:
        return JobFailure(Reason.NODE_LOST, f"{name} left the cluster during the run; look at its power and network")
    if was.uid and now.uid != was.uid:
        return JobFailure(Reason.NODE_LOST, f"{name} was replaced by another node of its name; run again")
    if any(now.labels.get(key) != value for key, value in labels.items()):
        return JobFailure(Reason.NODE_LOST, f"{name} was taken out of the pool during the run; run again")
    if not now.ready and was.ready:
        return JobFailure(Reason.NODE_NOT_READY, f"{name} is no longer ready ({now.problem}); look at its kubelet")
    if not now.schedulable and was.schedulable:
        return JobFailure(Reason.NODE_CORDONED, f"{name} was cordoned during the run; uncordon it and run again")
    if now.gpu_allocatable < gpus <= was.gpu_allocatable:
        said = f"{name} offered {was.gpu_allocatable} GPUs and offers {now.gpu_allocatable} at the end of the run"
        return JobFailure(Reason.UNSCHEDULABLE, f"{said}; look at its device plug-in and GPUs")
    return None
