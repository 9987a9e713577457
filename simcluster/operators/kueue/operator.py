"""What the stand-in of Kueue (kueue.x-k8s.io) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.operators.kueue import words
from simcluster.operators.kueue.admitting import Admitting
from simcluster.operators.kueue.counting import Counting
from simcluster.operators.kueue.managing import Managing, suspend_new
from simcluster.operators.kueue.owners import KINDS
from simcluster.operators.kueue.workload import API_VERSION
from simcluster.operators.operator import Operator, Setting


def _controllers(setting: Setting) -> Sequence[Controller]:
    kinds = [kind for kind in KINDS if not kind.operator or kind.operator in setting.beside]
    parts = (setting.client, setting.timing, setting.informers)
    return [Managing(*parts, setting.recorder, kinds), Admitting(*parts, setting.recorder), Counting(*parts)]


KUEUE = Operator(
    "kueue",
    _controllers,
    owned={(API_VERSION, "Workload"): words.WORKLOADS, (API_VERSION, "LocalQueue"): words.LOCAL_QUEUES},
    webhooks=(suspend_new,),
)
