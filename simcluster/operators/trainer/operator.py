"""What the stand-in of the Kubeflow Trainer operator (trainer.kubeflow.org) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.operators.operator import Operator, Setting
from simcluster.operators.trainer import words
from simcluster.operators.trainer.controller import TrainJobController
from simcluster.operators.trainer.webhook import admit


def _controllers(setting: Setting) -> Sequence[Controller]:
    return [TrainJobController(setting)]


TRAINER = Operator("trainer", _controllers, owned={(words.API_VERSION, words.KIND): words.RESOURCE}, webhooks=[admit])
