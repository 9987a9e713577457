"""What the stand-in of the Kubeflow Trainer operator (trainer.kubeflow.org) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.operators.operator import Operator, Setting


def _controllers(_setting: Setting) -> Sequence[Controller]:
    return []


TRAINER = Operator("trainer", _controllers)
