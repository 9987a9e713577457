"""Owns junit.xml: the run for pipelines, one case a check and subject; must not soften a verdict into a pass.

FAIL is a failure; ERROR and NOT_RUN are errors; NOT_APPLICABLE is skipped; RECORDED passes with a note in system-out. A
waived miss is skipped and names its owner. The first suite holds one case for the decision itself, so that a pipeline
that only counts red cases cannot take an UNDECIDED run, or one that planned nothing, for a green one.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from gpuproof.report.layout import bound_text, first_reason, outcome_word
from gpuproof.report.view import CheckView, RunView, SubjectView
from gpuproof.report.wording import as_utc, number, operating_point, visible

_MOST_OUTPUT_CHARS = 20_000
_XML_MAX = 0x10FFFF


def render_junit(view: RunView) -> str:
    """
    Return junit.xml, valid against the schema of the xunit plugin of Jenkins (junit-10.xsd): testsuites, testsuite,
    testcase; no properties on a case, and times in seconds with three decimals.
    """
    suites = [_decision_suite(view), *(_suite(view, check) for check in view.checks)]
    root = ET.Element("testsuites", {"name": "gpuproof"})
    for attribute in ("tests", "failures", "errors"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in suites)))
    root.set("time", _seconds(view.run.seconds))
    root.extend(suites)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _decision_suite(view: RunView) -> ET.Element:
    decision = view.decision
    case = _case("gpuproof.decision", view.run.profile.name, view.run.seconds)
    text = "\n".join([f"{decision.outcome}: {decision.scope}", *decision.reasons])
    if decision.outcome == "REJECTED":
        _child(case, "failure", "REJECTED", text)
    elif decision.outcome == "UNDECIDED":
        _child(case, "error", "UNDECIDED", text)
    _output(case, text)
    return _wrapped(view, "gpuproof.decision", [case], view.run.seconds)


def _suite(view: RunView, check: CheckView) -> ET.Element:
    cases = [_subject_case(check, subject) for subject in check.subjects]
    total = sum(_known(subject.duration_s) for subject in check.subjects)
    return _wrapped(view, f"gpuproof.{check.name}", cases, total)


def _wrapped(view: RunView, name: str, cases: list[ET.Element], seconds: float | None) -> ET.Element:
    started = view.run.started_at
    suite = ET.Element("testsuite", {"name": _clean(name), "tests": str(len(cases))})
    suite.set("failures", _count(cases, "failure"))
    suite.set("errors", _count(cases, "error"))
    suite.set("skipped", _count(cases, "skipped"))
    suite.set("time", _seconds(seconds))
    if started is not None:
        suite.set("timestamp", as_utc(started).strftime("%Y-%m-%dT%H:%M:%S"))
    suite.set("hostname", _clean(view.run.cluster.name))
    properties = ET.SubElement(suite, "properties")
    for key, value in (
        ("run_id", view.run.run_id),
        ("decision", view.decision.outcome),
        ("profile", view.run.profile.name),
        ("simulated", number(view.run.cluster.simulated) if view.run.cluster.simulated is not None else "unknown"),
    ):
        ET.SubElement(properties, "property", {"name": key, "value": _clean(value)})
    suite.extend(cases)
    return suite


def _subject_case(check: CheckView, subject: SubjectView) -> ET.Element:
    case = _case(f"gpuproof.{check.name}", subject.subject, subject.duration_s)
    reason = first_reason(subject)
    details = "\n".join([*subject.reasons, *(f.message for f in subject.failures)]) or reason
    if subject.waiver is not None and not subject.passed:
        waiver = subject.waiver
        until = waiver.expires or "no date"
        _child(case, "skipped", subject.verdict, f"waived by {waiver.owner} until {until}: {waiver.reason}. {details}")
    elif subject.verdict == "FAIL":
        _child(case, "failure", subject.reason_code or "FAIL", details, reason)
    elif subject.verdict in ("ERROR", "NOT_RUN"):
        _child(case, "error", subject.reason_code or subject.verdict, f"{subject.verdict}: {details}", reason)
    elif subject.verdict == "NOT_APPLICABLE":
        _child(case, "skipped", "NOT_APPLICABLE", check.facts.reason or reason)
    _output(case, "\n".join(_output_lines(subject)))
    return case


def _output_lines(subject: SubjectView) -> Iterable[str]:
    yield f"verdict: {subject.verdict}" + ("" if subject.required else " (not required)")
    if subject.verdict == "RECORDED":
        yield "RECORDED: measured and shown, held against no limit that decides. This is not a pass of a limit."
    if subject.blocked_by:
        yield f"blocked by: {subject.blocked_by}"
    for finding in subject.findings:
        at = f" at {operating_point(finding.at)}" if finding.at else ""
        yield (
            f"{outcome_word(finding)} [{finding.severity}] {finding.metric or finding.limit_id}{at}: "
            f"observed {number(finding.observed, finding.unit)}, bound {bound_text(finding.bound)} ({finding.limit_id})"
        )
    for failure in subject.failures:
        yield from failure.evidence


def _case(classname: str, name: str, seconds: float | None) -> ET.Element:
    return ET.Element("testcase", {"classname": _clean(classname), "name": _clean(name), "time": _seconds(seconds)})


def _child(case: ET.Element, tag: str, kind: str, text: str, message: str | None = None) -> None:
    first = (message or text).split("\n", 1)[0]
    child = ET.SubElement(case, tag, {"type": _clean(kind), "message": _clean(first)[:1_000]})
    child.text = _clean(text)[:_MOST_OUTPUT_CHARS]


def _output(case: ET.Element, text: str) -> None:
    cut = len(text) - _MOST_OUTPUT_CHARS
    kept = text if cut <= 0 else f"{text[:_MOST_OUTPUT_CHARS]}\n[{cut} characters cut, report.json has them]"
    ET.SubElement(case, "system-out").text = _clean(kept)


def _count(cases: list[ET.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _seconds(seconds: float | None) -> str:
    return f"{_known(seconds):.3f}"


def _known(seconds: float | None) -> float:
    # A time that no clock can give has no place in the schema's pattern: it counts as none.
    return seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else 0.0


def _clean(text: str) -> str:
    """Return text that XML 1.0 allows: control characters spelled out, noncharacters and surrogates replaced."""
    return "".join(c if _legal(ord(c)) else "\ufffd" for c in visible(text))


def _legal(code: int) -> bool:
    if code in (0x9, 0xA, 0xD):
        return True
    return 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= _XML_MAX
