"""The names that Volcano writes and reads: resources, labels, phases, events and actions of policies.

Owns words; holds no behaviour.
"""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
SCHEDULING_VERSION: Final = "scheduling.volcano.sh/v1beta1"
JOBS: Final = "jobs.batch.volcano.sh"
GROUPS: Final = "podgroups.scheduling.volcano.sh"
QUEUES: Final = "queues.scheduling.volcano.sh"
SCHEDULER: Final = "volcano"
DEFAULT_QUEUE: Final = "default"
COMPONENT: Final = "vc-controller-manager"

JOB_KEY: Final = "volcano.sh/job-name"
NAMESPACE_KEY: Final = "volcano.sh/job-namespace"
TASK_KEY: Final = "volcano.sh/task-spec"
INDEX_KEY: Final = "volcano.sh/task-index"
QUEUE_KEY: Final = "volcano.sh/queue-name"
VERSION_KEY: Final = "volcano.sh/job-version"
RETRY_KEY: Final = "volcano.sh/job-retry-count"
TEMPLATE_KEY: Final = "volcano.sh/template-uid"
GROUP_KEY: Final = "scheduling.k8s.io/group-name"

POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
TASK_COMPLETED: Final = "TaskCompleted"
ANY: Final = "*"

SYNC: Final = "SyncJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTARTS: Final = frozenset({RESTART_JOB, RESTART_TASK, RESTART_POD})

FINISHED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
