"""The names that the Job controller writes and reads: labels, annotations, condition reasons and messages.

Owns words; holds no behaviour.
"""

from __future__ import annotations

from typing import Final

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_KEY: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT_KEY: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT_KEY: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
COMPONENT: Final = "job-controller"

BACKOFF_LIMIT: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Final = ("DeadlineExceeded", "Job was active longer than specified deadline")
MAX_FAILED: Final = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
FAILED_INDEXES: Final = ("FailedIndexes", "Job has failed indexes")
COMPLETED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
POLICY_REASON: Final = "PodFailurePolicy"
