"""What an earlier run measured, as the number that limits with `of = "baseline"` are a fraction of.

Pure. It must not know files or a cluster: it is handed the lines of the earlier run's record.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.finding import matching
from gpuproof.limits import Limit, MaxFraction, MinFraction, Reference
from gpuproof.verdict import Verdict
from workloads.contract import Sample

_USABLE = (Verdict.PASS, Verdict.RECORDED)
"""What failed, or could not be judged, is no measure for anything."""


class BaselineError(ValueError):
    """Why a run cannot serve as a baseline, and what to do."""


@dataclass(frozen=True)
class Baseline:
    """The earlier run, and by limit id the median of what its subjects measured, in the limit's unit."""

    run: str
    decision: str
    simulated: bool
    values: Mapping[str, float]


def relative_to_baseline(limits: Iterable[Limit]) -> list[Limit]:
    """The limits that are a fraction of a baseline."""
    return [
        limit
        for limit in limits
        if isinstance(limit.bound, MinFraction | MaxFraction) and limit.bound.of is Reference.BASELINE
    ]


def read_baseline(lines: Sequence[Mapping[str, Any]], limits: Iterable[Limit]) -> Baseline:
    """
    The baseline that a finished run is for these limits; raises `BaselineError`.

    Only subjects that passed count, and of each workload the last measurement. A limit that nothing was measured for
    has no value, so that whoever is held to it is not measured.
    """
    wanted = relative_to_baseline(limits)
    if not wanted:
        raise BaselineError('no limit of the profile is relative to one: give a limit of = "baseline", or leave it out')
    started = next((line for line in reversed(lines) if line["event"] == "run_started"), None)
    decision = next((line for line in reversed(lines) if line["event"] == "decision"), None)
    if started is None or decision is None or lines[-1]["event"] != "run_finished":
        raise BaselineError("that run did not finish: take one that was decided")
    verdicts = {(line["check"], line["subject"]): line["verdict"] for line in lines if line["event"] == "verdict"}
    measured = {
        (line["check"], line["subject"], line["workload"]): line for line in lines if line["event"] == "measurement"
    }
    values: dict[str, float] = {}
    for limit in wanted:
        found = [
            sample.value
            for (check, subject, _), line in measured.items()
            if check == limit.check and verdicts.get((check, subject)) in _USABLE
            for sample in matching(limit, _samples(line))
            if sample.unit == limit.unit and math.isfinite(sample.value)
        ]
        if found:
            values[limit.id] = statistics.median(found)
    if not values:
        raise BaselineError("that run measured nothing that a limit is relative to, on any subject that passed")
    simulated = started["cluster"].get("simulated") is True
    return Baseline(str(started["run_id"]), str(decision["outcome"]), simulated, values)


def recorded_baseline(lines: Sequence[Mapping[str, Any]]) -> Baseline | None:
    """The baseline that an interrupted run was held to; None where it had none."""
    line = next((line for line in reversed(lines) if line["event"] == "baseline"), None)
    if line is None:
        return None
    values = {str(limit): float(value) for limit, value in line["values"].items()}
    return Baseline(str(line["run"]), str(line["decision"]), bool(line["simulated"]), values)


def _samples(line: Mapping[str, Any]) -> list[Sample]:
    # `float` reads the words that the record has for NaN and the infinities.
    return [Sample(s["metric"], float(s["value"]), s["unit"], s["at"]) for s in line["samples"]]
