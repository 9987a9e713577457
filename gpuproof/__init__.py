"""gpuproof: acceptance tests for GPU Kubernetes clusters that cannot pass by accident.

What stands in `__all__` is what a check may import; everything else is the harness's own.
"""

from gpuproof.suite import (
    Answer,
    ClusterSubject,
    FollowLoad,
    GangSubject,
    Hold,
    KillTraining,
    NodeSubject,
    Observe,
    ReadExporter,
    ReadPrometheus,
    ReadPull,
    RunExperiment,
    RunWorkload,
    TryClaims,
)

__all__ = [
    "Answer",
    "ClusterSubject",
    "FollowLoad",
    "GangSubject",
    "Hold",
    "KillTraining",
    "NodeSubject",
    "Observe",
    "ReadExporter",
    "ReadPrometheus",
    "ReadPull",
    "RunExperiment",
    "RunWorkload",
    "TryClaims",
]
__version__ = "0.1.0"
