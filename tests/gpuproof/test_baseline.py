"""Limits relative to an earlier run: which run may serve, which numbers are taken from it, and what they decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuproof.baseline import BaselineError, read_baseline, recorded_baseline
from gpuproof.limits import MinFraction, Reference
from gpuproof.record import Recorder, read_record
from gpuproof.run_folder import RECORD
from gpuproof.verdict import Verdict, judge
from tests.gpuproof.finished import finished
from tests.gpuproof.judging import context, limit, measurement, sample

HELD = limit(MinFraction(0.9, Reference.BASELINE), check="speed", at={"bytes": 1024})
OTHER = limit(MinFraction(0.9, Reference.BASELINE), check="speed", at={"bytes": 4096})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which `n2` is slow; the others measure 501 to 507 GB/s at 1024 bytes."""
    return finished(tmp_path_factory.mktemp("baseline"), slow=("n2",))


def lines(run: Path) -> list[dict[str, Any]]:
    return read_record(run / RECORD)


def test_the_median_of_what_passed_is_the_measure(run: Path) -> None:
    found = read_baseline(lines(run), [HELD, OTHER])
    assert found.values == {HELD.id: pytest.approx(504, abs=1)}
    assert (found.decision, found.simulated) == ("REJECTED", True)


@pytest.mark.parametrize(("value", "verdict"), [(460, Verdict.PASS), (440, Verdict.FAIL)])
def test_a_number_is_held_to_its_share_of_the_baseline(run: Path, value: float, verdict: Verdict) -> None:
    values = read_baseline(lines(run), [HELD]).values
    now = measurement(sample(value, bytes=1024))
    assert judge("speed", "n1", now, [HELD], context(baseline=values)).verdict is verdict
    assert judge("speed", "n1", now, [HELD], context()).verdict is Verdict.ERROR


def test_a_run_that_cannot_serve_is_refused(run: Path) -> None:
    with pytest.raises(BaselineError, match="no limit of the profile"):
        read_baseline(lines(run), [limit(check="speed")])
    with pytest.raises(BaselineError, match="did not finish"):
        read_baseline(lines(run)[:-1], [HELD])
    with pytest.raises(BaselineError, match="measured nothing"):
        read_baseline(lines(run), [OTHER])
    text = json.dumps(lines(run)).replace('"verdict": "PASS"', '"verdict": "ERROR"')
    with pytest.raises(BaselineError, match="measured nothing"):
        read_baseline(json.loads(text), [HELD])


def test_a_resumed_run_keeps_the_baseline_it_began_with(run: Path, tmp_path: Path) -> None:
    found = read_baseline(lines(run), [HELD])
    with Recorder(tmp_path / RECORD) as recorder:
        assert recorded_baseline(read_record(tmp_path / RECORD)) is None
        recorder.append(
            "baseline", run=found.run, decision=found.decision, simulated=found.simulated, values=dict(found.values)
        )
    assert recorded_baseline(read_record(tmp_path / RECORD)) == found
