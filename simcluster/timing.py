"""The delays of a real cluster, scaled: never zero, so that no client learns to rely on an immediate answer.

Owns the numbers and their source; knows nothing that waits on them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Delays in seconds as recorded on a real Kubernetes 1.36 (golden scenarios named behind each), times `scale`."""

    scale: float = 0.1

    def s(self, real_s: float) -> float:
        """A real cluster's delay, scaled."""
        return real_s * self.scale

    @property
    def job_sync_s(self) -> float:
        """From a pod's terminal phase to the Job's counters (01b: about 1 s)."""
        return self.s(1.0)

    @property
    def job_backoff_s(self) -> float:
        """First retry delay of a failed Job pod; doubles each time (05a, 14: 10 s, 20 s …)."""
        return self.s(10.0)

    @property
    def pod_terminal_lag_s(self) -> float:
        """From the last container's end to the pod's terminal phase (01b, 17b: about 1.1 s)."""
        return self.s(1.1)

    @property
    def namespace_first_sweep_s(self) -> float:
        """Before a terminating namespace's content is first deleted (19: 5 s)."""
        return self.s(5.0)

    @property
    def image_backoff_s(self) -> float:
        """First delay between pull attempts; doubles each time (11: 10 s, 20 s …)."""
        return self.s(10.0)

    @property
    def pod_gc_s(self) -> float:
        """Period of the collector of pods bound to absent nodes (14: seen after 44.6 s)."""
        return self.s(40.0)

    @property
    def node_grace_s(self) -> float:
        """Silence after which a node is marked NotReady (26b: about 50 s)."""
        return self.s(50.0)

    @property
    def heartbeat_s(self) -> float:
        """Period of a node's lease renewals (kubelet default 10 s)."""
        return self.s(10.0)
