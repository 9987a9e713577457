"""Tables: the columns of a kind and the rows of its objects.

Owns how both come together. It must not know HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.port import Object
from simcluster.api.wire.cells import at, of_condition
from simcluster.api.wire.columns import AGE, COLUMNS, NAME, Column
from simcluster.api.wire.durations import age

_CONDITION = re.compile(r'status\.conditions\[\?\(@\.type==\\?"(\w+)\\?"\)\]\.(\w+)')


@dataclass(frozen=True)
class Table:
    """All columns of a kind."""

    columns: tuple[Column, ...]

    def definitions(self) -> list[Object]:
        """The columns as they go over the wire."""
        return [column.definition() for column in self.columns]

    def cells(self, obj: Object) -> list[Any]:
        """The row of an object."""
        return [column.cell(obj) for column in self.columns]


def table_of(kind: Kind, extra: Sequence[Column] = ()) -> Table:
    """The table of a kind; `extra` are the columns a CustomResourceDefinition names."""
    if extra:
        return Table((NAME, *extra))
    name = "events" if kind.storage == "events" else kind.name
    return Table(COLUMNS.get(name, (NAME, AGE)))


def custom_column(spec: Mapping[str, Any]) -> Column:
    """A column of additionalPrinterColumns; of JSON paths the simple ones, and those to a condition by its type."""
    path = str(spec["jsonPath"]).lstrip(".")
    chosen = _CONDITION.fullmatch(path)
    cell = of_condition(chosen[1], chosen[2]) if chosen else at(path)
    if spec.get("type") == "date":
        shown = cell
        return Column(spec["name"], lambda obj: age(shown(obj) or None), wide=bool(spec.get("priority")))
    return Column(spec["name"], cell, wide=bool(spec.get("priority")), type=spec.get("type", "string"))
