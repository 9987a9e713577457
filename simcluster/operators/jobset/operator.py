"""What the stand-in of the JobSet operator (jobset.x-k8s.io) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.operators.jobset import words
from simcluster.operators.jobset.controller import JobSetController
from simcluster.operators.jobset.webhook import admit
from simcluster.operators.operator import Operator, Setting


def _controllers(setting: Setting) -> Sequence[Controller]:
    return [JobSetController(setting)]


JOBSET = Operator("jobset", _controllers, owned={(words.API_VERSION, words.KIND): words.RESOURCE}, webhooks=[admit])
