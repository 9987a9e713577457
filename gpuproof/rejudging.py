"""Judges a recorded run again: every verdict from its measurements, the decision from its verdicts and its profile.

Pure. It must not know files: it is handed the record's lines and the profile. It finds contradictions, in words; where
none is found, record and profile say the same thing.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuproof import describe
from gpuproof.conclusion import conclude
from gpuproof.decision import Decision, Key, PlannedSubject, VerdictLine, decide, exit_code
from gpuproof.expectation import CoverShare, State
from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context
from gpuproof.fleet import fleet_medians, seen_values
from gpuproof.observation import WORKLOAD as OBSERVED
from gpuproof.plan import Plan, expected_nodes, judge_coverage
from gpuproof.profile import Profile
from gpuproof.run_record import FINAL_LOOK
from gpuproof.suite import Answer, ClusterSubject, NodeSubject
from gpuproof.verdict import BLOCKED, NOTHING_JUDGED, Judgement, Verdict, blocked, judge_failure
from workloads.contract import Measurement, Sample

_NOT_REACHED = ("not_selected", str(Reason.INTERRUPTED))
_OF_THE_CHECK = (NOTHING_JUDGED, str(Reason.HARNESS_ERROR))
"""Errors of a check itself: nothing in the record can prove them, and nothing is gained by one."""

_NARROWED = re.compile(r"the run was narrowed \((.*)\), so it cannot speak", re.DOTALL)

Line = Mapping[str, Any]


@dataclass
class Told:
    """What a record tells, line by line; of a resumed run what came last."""

    started: Line = field(default_factory=dict)
    nodes: Sequence[Line] = ()
    planned: list[PlannedSubject] = field(default_factory=list)
    verdicts: dict[Key, list[Line]] = field(default_factory=dict)
    measured: dict[Key, dict[str, Measurement]] = field(default_factory=dict)
    failed: dict[Key, list[tuple[str, JobFailure]]] = field(default_factory=dict)
    answered_since_resume: set[Key] = field(default_factory=set)
    baseline: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    decision: Line | None = None


def told(lines: Sequence[Line]) -> Told:
    """Read the lines; raises `ValueError`, `KeyError` or `TypeError` where one is not what gpuproof writes."""
    found = Told()
    for line in lines:
        match line["event"]:
            case "run_started":
                found.started = line
            case "inventory":
                found.nodes = line["nodes"]
            case "planned":
                found.planned = [PlannedSubject(s["check"], s["subject"], s["required"]) for s in line["subjects"]]
            case "resumed":
                found.decision, found.interrupted = None, False
                found.answered_since_resume.clear()
            case "interrupted":
                found.interrupted = True
            case "baseline":
                found.baseline = {str(limit): float(value) for limit, value in line["values"].items()}
            case "decision":
                found.decision = line
            case "measurement" | "failure" | "verdict":
                _about(found, line)
    return found


def _about(found: Told, line: Line) -> None:
    key = str(line["check"]), str(line["subject"])
    if line["event"] == "verdict":
        found.verdicts.setdefault(key, []).append(line)
        return
    if key not in found.answered_since_resume:
        # Asked again after a resume: what it came to before counts no more.
        found.failed.pop(key, None)
        found.answered_since_resume.add(key)
    if line["event"] == "failure":
        failure = JobFailure(Reason(line["reason"]), str(line["message"]))
        found.failed.setdefault(key, []).append((str(line["workload"]), failure))
        return
    # `float` reads the words that the record has for NaN and the infinities.
    samples = tuple(Sample(s["metric"], float(s["value"]), s["unit"], s["at"]) for s in line["samples"])
    measured = Measurement(line["workload"], "", line["subject"], line["pod"] or "", 1, 1, samples, line["facts"])
    found.measured.setdefault(key, {})[line["workload"]] = measured


def contradictions(lines: Sequence[Line], profile: Profile) -> Iterator[str]:
    """Every sentence is one thing that the record says and that does not follow from its own measurements."""
    found = told(lines)
    if not found.started:
        yield "the record has no start: nothing says what was tested"
        return
    yield from _order(lines)
    yield from _circumstances(found, profile)
    yield from _plan(found, profile)
    for key in sorted({*found.verdicts, *((p.check, p.subject) for p in found.planned)}):
        yield from _verdict(found, profile, key)
    yield from _decision(found, profile)


def _order(lines: Sequence[Line]) -> Iterator[str]:
    numbers = [line["seq"] for line in lines]
    for place, number in enumerate(numbers, start=1):
        if number != place:
            yield f"line {place} of the record bears the number {number}: lines are missing, added or moved"
            break
    if lines[-1]["event"] != "run_finished" or lines[-2]["event"] != "decision":
        yield "the record does not end with a decision and the end of the run"


def _circumstances(found: Told, profile: Profile) -> Iterator[str]:
    said = found.started["profile"]
    pairs = (
        ("the profile's sha256", said["sha256"], profile.sha256),
        ("the profile's name", said["name"], profile.name),
        ("expected_nodes", found.started["expected_nodes"], expected_nodes(profile)),
        ("gpus_per_node", found.started["gpus_per_node"], profile.cluster.gpus_per_node),
    )
    for what, recorded, actual in pairs:
        if recorded != actual:
            yield f"{what} is {recorded} in the record and {actual} in the profile of the bundle"
    today = day_of(found.started)
    limits = [describe.limit(limit, profile, profile.limit_block(limit, today)) for limit in profile.limits]
    if found.started["limits"] != _as_recorded(limits):
        yield "the limits in the record are not those of the profile in the bundle"
    waivers = [describe.waiver(waiver, today) for waiver in profile.waivers]
    if found.started["waivers"] != _as_recorded(waivers):
        yield "the waivers in the record are not those of the profile in the bundle"
    states = {check["check"]: check["state"] for check in found.started["checks"]}
    if states != {name: str(state.state) for name, state in profile.checks.items()}:
        yield "the checks in the record are not those of the profile in the bundle"


def _as_recorded(value: Any) -> Any:
    return describe.plain(value)


def _plan(found: Told, profile: Profile) -> Iterator[str]:
    planned = {(p.check, p.subject): p.required for p in found.planned}
    if len(planned) != len(found.planned):
        yield "the plan names a check and subject twice"
    for (check, subject), required in planned.items():
        if required != profile.required(check):
            yield f"the plan says required = {required} of {check} on {subject}, the profile does not"
    names = _nodes(found, profile)
    for check in profile.checks:
        subjects = {subject for name, subject in planned if name == check}
        if not subjects and profile.required(check):
            yield f"the plan does not ask the required check {check}"
        missing = [name for name in names if name not in subjects]
        if subjects & set(names) and missing:
            yield f"the plan does not ask {check} of {', '.join(missing[:3])}"


def _nodes(found: Told, profile: Profile) -> list[str]:
    present = [str(node["name"]) for node in found.nodes if node["in_scope"]]
    if isinstance(profile.scope.cover, CoverShare):
        return present
    return [*present, *(f"missing-{n}" for n in range(1, expected_nodes(profile) - len(present) + 1))]


def _verdict(found: Told, profile: Profile, key: Key) -> Iterator[str]:
    check, subject = key
    where = f"{check} on {subject}"
    told_lines = found.verdicts.get(key)
    if told_lines is None:
        yield f"{where} was planned and has no verdict"
        return
    line = _full(told_lines)
    if line["required"] != profile.required(check):
        yield f"the verdict of {where} says required = {line['required']}, the profile does not"
    verdict, code = Verdict(line["verdict"]), line["reason_code"]
    if profile.checks[check].state is State.NOT_APPLICABLE or verdict is Verdict.NOT_APPLICABLE:
        if (verdict, profile.checks[check].state) != (Verdict.NOT_APPLICABLE, State.NOT_APPLICABLE):
            yield f"{where} is {verdict}, and the profile says {profile.checks[check].state}"
        return
    if code == BLOCKED:
        yield from _blocked(found, profile, key, line)
    elif verdict is Verdict.NOT_RUN and code in _NOT_REACHED:
        pods = [measured for measured in found.measured.get(key, {}).values() if measured.workload != OBSERVED]
        if code == "not_selected" and (pods or key in found.failed):
            yield f"{where} is said to be not selected, and it was asked"
        elif code != "not_selected" and not found.interrupted:
            yield f"{where} is said to be interrupted, and the run was not"
    elif verdict is not Verdict.ERROR or code not in _OF_THE_CHECK:
        yield from _judged(found, profile, key, line)


def _full(told_lines: Sequence[Line]) -> Line:
    """The last verdict; a resumed run repeats what was settled without its findings."""
    last = told_lines[-1]
    if not last["findings"]:
        for earlier in reversed(told_lines[:-1]):
            if earlier["verdict"] == last["verdict"] and earlier["findings"]:
                return {**last, "findings": earlier["findings"]}
    return last


def _blocked(found: Told, profile: Profile, key: Key, line: Line) -> Iterator[str]:
    check, subject = key
    needs = {item["check"]: item["requires"] for item in found.started["checks"]}
    blocker = str(line["blocked_by"])
    if blocker not in _required_by(check, needs, profile):
        yield f"{check} on {subject} is said to be blocked by {blocker}, which it does not need"
        return
    words = {each["verdict"] for each in found.verdicts.get((blocker, subject), [])} - {str(Verdict.PASS)}
    if not any(list(blocked(blocker, Verdict(word)).reasons) == line["reasons"] for word in words):
        yield f"{check} on {subject} is said to be blocked by {blocker}, whose verdicts there say otherwise"
    if line["verdict"] != Verdict.NOT_RUN:
        yield f"{check} on {subject} is {line['verdict']} and blocked"


def _required_by(check: str, needs: Mapping[str, Sequence[str]], profile: Profile) -> set[str]:
    found: set[str] = set()
    for needed in needs.get(check, ()):
        found |= {needed} if profile.required(needed) else _required_by(needed, needs, profile)
    return found


def _judged(found: Told, profile: Profile, key: Key, line: Line) -> Iterator[str]:
    where = f"{key[0]} on {key[1]}"
    again = list(_judge_again(found, profile, key))
    if not again:
        yield f"{where} is {line['verdict']}, and the record holds nothing that was measured or went wrong there"
        return
    if any(_same(judgement, line) for judgement in again):
        return
    judgement = again[0]
    if str(judgement.verdict) != line["verdict"]:
        yield f"{where} is {line['verdict']} in the record; judged again from what it holds it is {judgement.verdict}"
    elif _findings(judgement) != line["findings"]:
        yield f"the findings of {where} do not follow from what was measured"
    else:
        yield f"the reasons of {where} do not follow from what was measured"


def _judge_again(found: Told, profile: Profile, key: Key) -> Iterator[Judgement]:
    check, subject = key
    failures = found.failed.get(key, [])
    late = [failure for workload, failure in failures if workload == FINAL_LOOK]
    if late:
        yield judge_failure(late[-1])
        return
    measured: list[Answer] = list(found.measured.get(key, {}).values())
    early = [failure for _, failure in failures]
    limits = profile.limits_for(check)
    context = _context(found, profile, check, subject)
    if not early and measured:
        yield conclude(check, subject, measured, limits, context)
    # Which of several failures a check held first, the record does not say.
    for first in early:
        rest = [failure for failure in early if failure is not first]
        yield conclude(check, subject, [*measured, first, *rest], limits, context)
        yield conclude(check, subject, [*measured, first], limits, context)


def _context(found: Told, profile: Profile, check: str, subject: str) -> Context:
    limits = profile.limits_for(check)
    if not any(limit.compares_subjects for limit in limits):
        return Context(profile.cluster, baseline=found.baseline)
    fleet = {name: list(of.values()) for (asked, name), of in found.measured.items() if asked == check}
    fleet.pop(ClusterSubject().name, None)
    medians = fleet_medians(limits, fleet, subject, expected_nodes(profile))
    return Context(
        profile.cluster,
        fleet=medians,
        baseline=found.baseline,
        seen=seen_values(limits, fleet, expected_nodes(profile)),
    )


def _same(judgement: Judgement, line: Line) -> bool:
    reasons = list(judgement.reasons)
    # A check that broke after it had failed keeps its FAIL, and says so after the reasons.
    told_reasons = line["reasons"][: len(reasons)] if judgement.verdict is Verdict.FAIL else line["reasons"]
    return bool(
        str(judgement.verdict) == line["verdict"]
        and judgement.reason_code == line["reason_code"]
        and reasons == told_reasons
        and _findings(judgement) == line["findings"]
    )


def _findings(judgement: Judgement) -> list[Line]:
    """The findings as the record has them, which writes words for numbers that are none."""
    found = [_as_recorded(describe.finding(finding)) for finding in judgement.findings]
    return [{**f, "observed": _word(f["observed"])} for f in found]


def _word(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decision(found: Told, profile: Profile) -> Iterator[str]:
    line = found.decision
    if line is None:
        yield "the record holds no decision"
        return
    decision = _decide_again(found, profile, line)
    if str(decision.outcome) != line["outcome"]:
        yield f"the decision is {line['outcome']} in the record; decided again it is {decision.outcome}"
    pairs = (
        ("exit code", exit_code(decision.outcome), line["exit_code"]),
        ("reasons", list(decision.reasons), line["reasons"]),
        ("scope", decision.scope, line["scope"]),
        ("counts", {str(verdict): count for verdict, count in decision.counts.items()}, line["counts"]),
        ("waivers", [str(waived) for waived in decision.waived], line["waived"]),
    )
    for what, again, recorded in pairs:
        if again != recorded:
            yield f"the {what} of the decision do not follow from the verdicts: {recorded}, decided again {again}"


def _decide_again(found: Told, profile: Profile, line: Line) -> Decision:
    today = day_of(line)
    judged = {key: _verdict_line(key, _full(lines)) for key, lines in found.verdicts.items()}
    nodes = tuple(NodeSubject(name, name.startswith("missing-")) for name in _nodes(found, profile))
    plan = Plan(nodes, tuple(found.planned), expected_nodes(profile))
    return decide(
        found.planned,
        judged,
        interrupted=found.interrupted,
        blocking_provenance=profile.blocking_provenance(today),
        waivers=profile.waivers,
        today=today,
        scope=judge_coverage(plan, profile, judged, today=today, narrowed=_narrowed(found, line)),
        limits=profile.limits,
    )


def _verdict_line(key: Key, line: Line) -> VerdictLine:
    held = frozenset(str(finding["limit_id"]) for finding in line["findings"])
    verdict = Verdict(line["verdict"])
    return VerdictLine(*key, verdict, tuple(line["reasons"]), line["reason_code"], line["blocked_by"], held)


def _narrowed(found: Told, line: Line) -> str | None:
    """How the run was cut down: in the decision's own words, else by what was not selected."""
    for reason in line["reasons"]:
        words = _NARROWED.search(str(reason))
        if words is not None:
            return words.group(1)
    skipped = any(_full(lines)["reason_code"] == "not_selected" for lines in found.verdicts.values())
    flags = [str(word) for word in found.started["started_by"]]
    cut = [flag for flag in ("--only", "--nodes", "-k", "-m", "--deselect") if flag in flags]
    return "by the command line" if skipped or cut else None


def day_of(line: Line) -> dt.date:
    """The day in UTC on which a line was written."""
    return dt.datetime.fromisoformat(str(line["t"])).astimezone(dt.UTC).date()
