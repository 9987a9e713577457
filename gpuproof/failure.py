"""Owns the vocabulary of jobs that gave no usable measurement; must not know a cluster, a limit or a verdict."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a pod gave no usable measurement, read from status and events, never from log text."""

    UNSCHEDULABLE = "unschedulable"
    IMAGE_PULL = "image_pull"
    CREATE_ERROR = "create_error"
    """CreateContainerConfigError, CreateContainerError, RunContainerError or StartError."""
    GPU_RUNTIME_FAILED = "gpu_runtime_failed"
    """The runtime's GPU hook failed: driver and library versions differ, a device is lost, the driver is not loaded."""
    SANDBOX_FAILED = "sandbox_failed"
    VOLUME_FAILED = "volume_failed"
    """A claim's volume could not be attached to the node or mounted there."""
    ADMISSION_REFUSED = "admission_refused"
    """The kubelet refused the pod: OutOf..., UnexpectedAdmissionError, NodeAffinity and their like."""
    FORBIDDEN = "forbidden"
    """The API refused the pods: RBAC, pod security or a webhook."""
    QUOTA_EXCEEDED = "quota_exceeded"
    NOT_ADMITTED = "not_admitted"
    """The queue did not let the pods in, or took them out again."""
    OOM_KILLED = "oom_killed"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    NONZERO_EXIT = "nonzero_exit"
    NO_MEASUREMENT = "no_measurement"
    TRUNCATED_MEASUREMENT = "truncated_measurement"
    MALFORMED_MEASUREMENT = "malformed_measurement"
    WRONG_WORLD_SIZE = "wrong_world_size"
    WRONG_NODE_COUNT = "wrong_node_count"
    FOREIGN_MEASUREMENT = "foreign_measurement"
    """Run id, pod or node of the measurement are not those of the pod that carried it."""
    NEVER_STARTED = "never_started"
    """No status and no event by the deadline."""
    NODE_LOST = "node_lost"
    NODE_NOT_READY = "node_not_ready"
    NODE_CORDONED = "node_cordoned"
    NODE_MISSING = "node_missing"
    """The profile expects more nodes than the pool has."""
    NODE_BUSY = "node_busy"
    """Others hold the node's GPUs."""
    POD_DELETED = "pod_deleted"
    UNVISITED = "unvisited"
    INTERRUPTED = "interrupted"
    HARNESS_ERROR = "harness_error"
    CLUSTER_UNREACHABLE = "cluster_unreachable"


@dataclass(frozen=True)
class JobFailure:
    """
    A job that gave no measurement for one subject.

    `message` is one plain sentence: what, expected, actual, what to do next.
    `evidence` holds raw event and status texts, already capped by whoever collected them.
    """

    reason: Reason
    message: str
    evidence: tuple[str, ...] = ()
