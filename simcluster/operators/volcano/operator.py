"""What the stand-in of Volcano (batch.volcano.sh, scheduling.volcano.sh) brings into a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.controllers.manager import Controller
from simcluster.controllers.scheduler.controller import Scheduler
from simcluster.operators.operator import Operator, Setting
from simcluster.operators.volcano import words
from simcluster.operators.volcano.admission import Checks, fill_in
from simcluster.operators.volcano.controller import JobController
from simcluster.operators.volcano.gang import Gang
from simcluster.operators.volcano.groups import GroupController


def _controllers(setting: Setting) -> Sequence[Controller]:
    scheduler = Scheduler(
        setting.client,
        setting.timing,
        setting.informers,
        setting.recorder,
        name=words.SCHEDULER,
        hold=Gang(setting.informers),
    )
    return [JobController(setting), GroupController(setting), scheduler]


VOLCANO = Operator(
    "volcano",
    _controllers,
    owned={(words.API_VERSION, "Job"): words.JOBS, (words.SCHEDULING_VERSION, "PodGroup"): words.GROUPS},
    webhooks=(fill_in,),
    checks=Checks,
)
