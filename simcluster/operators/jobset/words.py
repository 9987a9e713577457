"""The names that JobSet gives things: labels, condition types, reasons.

Source: the API reference and the published constants of kubernetes-sigs/jobset (jobset.x-k8s.io/v1alpha2).
"""

from __future__ import annotations

from typing import Final

RESOURCE: Final = "jobsets.jobset.x-k8s.io"
API_VERSION: Final = "jobset.x-k8s.io/v1alpha2"
KIND: Final = "JobSet"
COMPONENT: Final = "jobset"

PREFIX: Final = "jobset.sigs.k8s.io/"
NAME: Final = f"{PREFIX}jobset-name"
REPLICATED_JOB: Final = f"{PREFIX}replicatedjob-name"
ATTEMPT: Final = f"{PREFIX}restart-attempt"
CONTROLLER: Final = f"{PREFIX}jobset-controller"

COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
STARTING: Final = "StartupPolicyInProgress"
STARTED: Final = "StartupPolicyCompleted"
