"""The names that Kubeflow Trainer gives things.

Source: the API reference and the published constants of kubeflow/trainer 2.0 and 2.1 (trainer.kubeflow.org/v1alpha1).
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KIND: Final = "TrainJob"
RESOURCE: Final = f"trainjobs.{GROUP}"
RUNTIMES: Final = {
    "TrainingRuntime": f"trainingruntimes.{GROUP}",
    "ClusterTrainingRuntime": f"clustertrainingruntimes.{GROUP}",
}
COMPONENT: Final = "trainer"
CONTROLLER: Final = f"{GROUP}/trainjob-controller"

STEP: Final = f"{GROUP}/trainjob-ancestor-step"
TRAINER: Final = "trainer"
NODE: Final = "node"
PORT: Final = 29500
RANK_PATH: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
