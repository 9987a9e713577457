"""The names that Kueue writes and reads: resources, labels, condition types, reasons, messages.

Owns words; holds no behaviour.
"""

from __future__ import annotations

from typing import Final

WORKLOADS: Final = "workloads.kueue.x-k8s.io"
CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
LOCAL_QUEUES: Final = "localqueues.kueue.x-k8s.io"
FLAVORS: Final = "resourceflavors.kueue.x-k8s.io"

QUEUE_KEY: Final = "kueue.x-k8s.io/queue-name"
JOB_UID_KEY: Final = "kueue.x-k8s.io/job-uid"
FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
MANAGER: Final = "kueue.x-k8s.io/manager"
"""By whom an override of a TrainJob was put there."""

SCHEDULER: Final = "kueue-admission"
"""The component named in events about admission."""

RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
PREEMPTED: Final = "Preempted"

PENDING: Final = "Pending"
INADMISSIBLE: Final = "Inadmissible"
NO_RESERVATION: Final = ("NoReservation", "The workload has no reservation")
IS_ADMITTED: Final = ("Admitted", "The workload is admitted")

QUEUE_STOPPED: Final = ("ClusterQueueStopped", "The ClusterQueue is stopped")
LOCAL_QUEUE_STOPPED: Final = ("LocalQueueStopped", "The LocalQueue is stopped")
DEACTIVATED: Final = ("Deactivated", "The workload is deactivated")
