"""The words and lines that reports share with judging and with the record, held against the real ones."""

import datetime as dt
import random
from pathlib import Path
from typing import get_args

import pytest

from gpuproof import record
from gpuproof.decision import EXIT_CODES, DecisionOutcome, PlannedSubject, ScopeResult, VerdictLine, decide
from gpuproof.record import Recorder, read_record
from gpuproof.report import RunView, words
from gpuproof.report.events import LINES
from gpuproof.report.html import render_html
from gpuproof.report.junit import render_junit
from gpuproof.verdict import Verdict
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines


def test_words_are_those_of_judging() -> None:
    assert set(get_args(words.Verdict)) == set(words.VERDICTS) == {str(v) for v in Verdict}
    assert set(get_args(words.Decision)) == {str(d) for d in DecisionOutcome}
    assert {str(v) for v in (*Verdict, *DecisionOutcome)} == set(words.SIGNS) == set(words.MEANINGS)


def test_reports_read_every_event_of_the_record() -> None:
    assert set(LINES) == set(record.EVENTS)
    for event, fields in record.EVENTS.items():
        unread = set(fields) - set(LINES[event].model_fields)
        assert unread <= {"schema", "index"}, event


@pytest.mark.parametrize("short", [(), ("gpu-2",)])
def test_record_written_and_read_by_the_harness_gives_the_same_view(tmp_path: Path, short: tuple[str, ...]) -> None:
    lines = synthetic.run(3, short=short)
    with Recorder(tmp_path / "record.jsonl") as recorder:
        for line in lines:
            recorder.append(line["event"], **{k: v for k, v in line.items() if k not in ("seq", "t", "event")})

    view = RunView.from_record(read_record(tmp_path / "record.jsonl"))

    wanted = RunView.from_record(lines)
    assert (view.decision, view.counts, view.problems) == (wanted.decision, wanted.counts, ())


def _decided(lines: Lines) -> Lines:
    """Return the lines with the decision that gpuproof itself makes of their plan and verdicts."""
    planned = [PlannedSubject(**s) for line in lines if line["event"] == "planned" for s in line["subjects"]]
    judged = {
        (line["check"], line["subject"]): VerdictLine(
            line["check"], line["subject"], Verdict(line["verdict"]), tuple(line["reasons"]), line["reason_code"]
        )
        for line in lines
        if line["event"] == "verdict"
    }
    decision = decide(
        planned,
        judged,
        interrupted=False,
        blocking_provenance=(),
        waivers=(),
        today=dt.date(2026, 11, 30),
        scope=ScopeResult("all nodes", complete=True),
    )
    line = next(line for line in lines if line["event"] == "decision")
    line |= {"outcome": str(decision.outcome), "reasons": list(decision.reasons), "scope": decision.scope}
    return lines


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (synthetic.run(4), "ACCEPTED"),
        (synthetic.run(4, short=["gpu-1"]), "REJECTED"),
        (synthetic.run(4, unpullable=["gpu-1"]), "UNDECIDED"),
    ],
)
def test_decision_of_the_harness_is_shown_as_it_is(lines: Lines, outcome: str) -> None:
    view = RunView.from_record(_decided(lines))

    assert view.decision.recorded
    assert (view.decision.outcome, view.decision.exit_code) == (outcome, EXIT_CODES[DecisionOutcome(outcome)])


def test_record_cut_at_any_byte_still_gives_a_page_that_accepts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with Recorder(path) as recorder:
        for line in synthetic.run(4, unpullable=["gpu-3"]):
            fields = {k: v for k, v in line.items() if k not in ("seq", "t", "event")}
            recorder.append(line["event"], **fields)
    whole = path.read_bytes()

    for place in random.Random(5).sample(range(len(whole)), 50):
        path.write_bytes(whole[:place])
        view = RunView.from_record(read_record(path))
        assert view.decision.outcome == "UNDECIDED"
        assert render_html(view).rstrip().endswith("</html>")
        assert 'errors="0"' not in render_junit(view).splitlines()[1]
