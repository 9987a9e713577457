"""One page of metrics as text, read by prometheus_client: series with their labels, or why the page cannot be read.

Pure. It must not know which metrics there are or where the page came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

OPENMETRICS = "application/openmetrics-text"
ACCEPT = f"{OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5"

_BROKEN = (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What the library raises for pages that are none; only ValueError is meant to be."""


class PageError(ValueError):
    """A page that cannot be read as metrics: one sentence that says why."""


@dataclass(frozen=True)
class Series:
    """One value under a name and labels; `kind` is the family's type (gauge, counter, …)."""

    name: str
    labels: Mapping[str, str]
    value: float
    kind: str


def read_page(body: bytes, content_type: str) -> tuple[Series, ...]:
    """All series of a page in text format 0.0.4 or OpenMetrics; raises `PageError`, never returns half of one."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PageError(f"the page is no text: {error}") from error
    if not text.strip():
        raise PageError("the page is empty")
    if not text.endswith("\n"):
        raise PageError(f"the page is cut: its last line has no end: {text.splitlines()[-1][:120]!r}")
    is_openmetrics = content_type.startswith(OPENMETRICS) or text.endswith("# EOF\n")
    library: Any = openmetrics if is_openmetrics else parser
    try:
        found = tuple(_series(library.text_string_to_metric_families(text)))
    except _BROKEN as error:
        raise PageError(f"the page is no metrics: {type(error).__name__}: {str(error)[:200]}") from error
    if not found:
        raise PageError("the page holds no series")
    return found


def _series(families: Iterable[Any]) -> Iterable[Series]:
    for family in families:
        for sample in family.samples:
            name = str(sample.name)
            if family.type == "counter" and name.endswith("_total"):
                # The library (and OpenMetrics) call a counter X_total; exporters of text 0.0.4 wrote X.
                name = name.removesuffix("_total")
            yield Series(name, dict(sample.labels), float(sample.value), str(family.type))
