"""What the stand-in of the JobSet operator (jobset.x-k8s.io) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.operators.operator import Operator, Setting


def _controllers(_setting: Setting) -> Sequence[Controller]:
    return []


JOBSET = Operator("jobset", _controllers)
