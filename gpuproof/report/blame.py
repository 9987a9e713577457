"""Owns how a blame is shown: the whole set with the blamed and without them, against the floor, drawn and in words.

Must not know any check by name: a measurement that says `blame` and `counterfactual` is shown so, and nothing here
is a verdict.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from gpuproof.report.bounds import number_of
from gpuproof.report.events import MeasurementLine, SampleFacts
from gpuproof.report.view import CheckView
from gpuproof.report.wording import number

WITH, WITHOUT = "whole_busbw", "without_busbw"
MOST_WORDS = 12
_NAMES, _BAR, _RIGHT, _ROW = 150, 430, 140, 34
_MOST_BAR_SHARE = 1.15


@dataclass(frozen=True)
class BlamePanel:
    """
    Whom a measurement blames, in words, and the counterfactual: both numbers (`unit`, None where one was not measured)
    beside the floor. `left_out` more of the blamed are in the record only; `seen_once` are misses that never came back.
    """

    blamed: tuple[str, ...]
    left_out: int
    counterfactual: str
    sentences: tuple[str, ...]
    unit: str
    svg: Markup | None
    seen_once: tuple[str, ...]


def blame_panels(check: CheckView) -> tuple[BlamePanel, ...]:
    """Return a panel for each measurement of the check that blames somebody."""
    measured = [each for subject in check.subjects for each in subject.measurements]
    return tuple(panel for each in measured if (panel := _panel(each)) is not None)


def _panel(measured: MeasurementLine) -> BlamePanel | None:
    words, counterfactual = _texts(measured.facts, "blame"), _texts(measured.facts, "counterfactual")
    numbers = {each.metric: each for each in measured.samples if each.metric in (WITH, WITHOUT)}
    if not words or not counterfactual or not numbers:
        return None
    said = [word for word in words if word != counterfactual[0]]
    if len(said) == len(words) and WITHOUT not in numbers:
        # Nobody is blamed: there is no other number to compare with.
        return None
    unit = next(iter(numbers.values())).unit
    floor = number_of(f">= {measured.environment.get('floor', '')}")
    whole, without = (_shown(numbers.get(name)) for name in (WITH, WITHOUT))
    return BlamePanel(
        blamed=tuple(said[:MOST_WORDS]),
        left_out=max(0, len(said) - MOST_WORDS),
        counterfactual=counterfactual[0],
        sentences=_sentences(whole, without, floor, unit),
        unit=unit,
        svg=_drawn(whole, without, floor),
        seen_once=_texts(measured.facts, "seen_once")[:MOST_WORDS],
    )


def _texts(facts: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = facts.get(name)
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list | tuple) else ()


def _shown(sample: SampleFacts | None) -> float | None:
    """The number, where it can be drawn."""
    return sample.number if sample is not None and math.isfinite(sample.number) and sample.number >= 0 else None


def _sentences(whole: float | None, without: float | None, floor: float | None, unit: str) -> tuple[str, ...]:
    pairs = (("With all nodes", whole), ("Without the blamed", without))
    said = tuple(f"{name}: {_against(value, floor, unit)}" for name, value in pairs)
    if whole is not None and floor is not None and whole >= floor:
        return (*said, "The rate was not what the whole set missed, but what is said of the blamed.")
    return said


def _against(value: float | None, floor: float | None, unit: str) -> str:
    if value is None:
        return "nothing was measured"
    if floor is None or floor <= 0:
        return f"{number(value, unit)}; no floor is recorded"
    side = "below" if value < floor else "at or above"
    return f"{number(value, unit)}, {value / floor:.2g} times the floor of {number(floor, unit)}: {side} it"


def _drawn(whole: float | None, without: float | None, floor: float | None) -> Markup | None:
    """Two bars from zero with the floor across them. Every text in it is made here, none comes from the record."""
    most = max([value for value in (whole, without, floor) if value is not None], default=0.0) * _MOST_BAR_SHARE
    if most <= 0:
        return None
    width, height = _NAMES + _BAR + _RIGHT, 3 * _ROW
    marks = []
    for row, (name, value) in enumerate((("with all nodes", whole), ("without the blamed", without))):
        top = 8 + row * _ROW
        marks.append(f'<text class="name" x="{_NAMES - 8}" y="{top + 16}">{name}</text>')
        bar = _BAR * (value or 0.0) / most
        below = value is not None and floor is not None and value < floor
        marks.append(
            f'<rect class="{"low" if below else "good"}" x="{_NAMES}" y="{top}" width="{bar:.1f}" height="22"/>'
        )
        text = "nothing was measured" if value is None else number(value)
        marks.append(f'<text x="{_NAMES + _BAR + 6}" y="{top + 16}">{text}</text>')
    if floor is not None:
        at = _NAMES + _BAR * floor / most
        marks.append(f'<path class="floor" d="M{at:.1f} 2V{2 * _ROW + 4}"/>')
        marks.append(f'<text class="at" x="{at:.1f}" y="{2 * _ROW + 20}">floor {number(floor)}</text>')
    label = "Bus bandwidth of the whole set with the blamed and without them, and the floor"
    return Markup(f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(marks)}</svg>')
