"""What an interrupted run has settled, read from its record: verdicts that need not be asked for again.

Must not know a cluster; a verdict counts only if the profile that judged it is the one in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof.decision import VerdictLine
from gpuproof.verdict import Verdict
from workloads.contract import Measurement, Sample

SETTLED = (Verdict.PASS, Verdict.FAIL, Verdict.RECORDED)
"""What was measured stays measured; ERROR and NOT_RUN are asked again."""


def earlier_verdicts(lines: Iterable[Mapping[str, Any]], sha256: str) -> dict[tuple[str, str], VerdictLine]:
    """The verdicts by (check, subject) whose last line settles them; ValueError for another profile's or no run."""
    found: dict[tuple[str, str], VerdictLine] = {}
    begun = False
    for line in lines:
        if line["event"] == "run_started":
            begun = True
            judged_by = line["profile"]["sha256"]
            if judged_by != sha256:
                raise ValueError(
                    f"it was judged by a profile with sha256 {judged_by[:12]}, this one has {sha256[:12]}; "
                    "use the same profile, or start a new run"
                )
        if line["event"] == "verdict":
            key = (line["check"], line["subject"])
            before = found.pop(key, None)
            if line["verdict"] in SETTLED:
                found[key] = _settled(line, before)
    if not begun:
        raise ValueError("its record has no run_started line, so there is nothing to continue")
    return found


def _settled(line: Mapping[str, Any], before: VerdictLine | None) -> VerdictLine:
    held = frozenset(str(finding["limit_id"]) for finding in line["findings"])
    if not held and before is not None and before.verdict == line["verdict"]:
        # A resumed run repeats what was settled without its findings.
        held = before.held
    return VerdictLine(line["check"], line["subject"], Verdict(line["verdict"]), tuple(line["reasons"]), held=held)


def earlier_measurements(lines: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[Measurement, ...]]:
    """What pods measured by (check, subject), the last of each workload: a resumed run compares others with it."""
    found: dict[tuple[str, str], dict[str, Measurement]] = {}
    for line in lines:
        if line["event"] == "measurement":
            found.setdefault((line["check"], line["subject"]), {})[line["workload"]] = _measurement(line)
    return {key: tuple(by_workload.values()) for key, by_workload in found.items()}


def _measurement(line: Mapping[str, Any]) -> Measurement:
    # `float` reads the words that the record has for NaN and the infinities.
    samples = tuple(Sample(s["metric"], float(s["value"]), s["unit"], s["at"]) for s in line["samples"])
    return Measurement(line["workload"], "", line["subject"], line["pod"], 1, 1, samples, line["facts"])
