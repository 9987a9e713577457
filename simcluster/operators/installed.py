"""Which operators there are, and how those that a topology names come into a cluster.

Owns that table and the order: kinds first, then controllers. It must not know what an operator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from simcluster.api.custom import CRDS
from simcluster.api.port import Client, Object
from simcluster.api.resources import Admission, Resources
from simcluster.api.schema.inline import inline
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.manager import Controller
from simcluster.operators.jobset.operator import JOBSET
from simcluster.operators.kueue.operator import KUEUE
from simcluster.operators.operator import Operator, Setting
from simcluster.operators.trainer.operator import TRAINER
from simcluster.operators.volcano.operator import VOLCANO
from simcluster.timing import Timing

_HERE = Path(__file__).resolve().parent
_OPERATORS: tuple[Operator, ...] = (JOBSET, TRAINER, VOLCANO, KUEUE)


class Operators:
    """The operators of one cluster, in the order in which they are installed; `troubles` by operator."""

    def __init__(self, names: Sequence[str], troubles: Mapping[str, str]) -> None:
        self._operators = tuple(operator for operator in _OPERATORS if operator.name in names)
        self._troubles = dict(troubles)

    @property
    def owned(self) -> dict[tuple[str, str], str]:
        """The operators' kinds between which owner references are followed."""
        return {kind: resource for operator in self._operators for kind, resource in operator.owned.items()}

    def webhooks(self) -> list[Admission]:
        """What the operators do at admission."""
        return [webhook for operator in self._operators for webhook in operator.webhooks]

    def checks(self, resources: Resources) -> list[Admission]:
        """What the operators refuse at the end of admission."""
        return [operator.checks(resources) for operator in self._operators if operator.checks is not None]

    async def install(self, client: Client) -> None:
        """Have the operators' kinds served. Raises `ApiError`."""
        for operator in self._operators:
            for definition in definitions(operator.name):
                await client.create(CRDS, definition)

    def controllers(
        self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder
    ) -> Iterator[Controller]:
        """The operators' controllers, built and not started."""
        beside = frozenset(operator.name for operator in self._operators)
        for operator in self._operators:
            trouble = self._troubles.get(operator.name, "")
            yield from operator.controllers(Setting(client, timing, informers, recorder, trouble, beside))


@cache
def definitions(operator: str) -> list[Object]:
    """The CustomResourceDefinitions of an operator, with what they refer to written out."""
    return [
        _written_out(definition) for file in sorted((_HERE / operator).glob("*.yaml")) for definition in _read(file)
    ]


def _read(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def _written_out(value: Any) -> Any:
    if isinstance(value, list):
        return [_written_out(one) for one in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str):
        return {key: _written_out(one) for key, one in value.items()}
    if not reference.endswith(".yaml"):
        return inline(reference)
    version = _read(_HERE / reference)[0]["spec"]["versions"][0]
    return _written_out(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
