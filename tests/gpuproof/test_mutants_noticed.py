"""The worst lies that the judging could tell: the tests must notice each (`make mutate` tells all the others)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WORST = [
    # an ERROR read as PASS, a FAIL read as PASS
    "verdict._conclude: member: Verdict.ERROR -> Verdict.PASS",
    "verdict._conclude: member: Verdict.FAIL -> Verdict.PASS",
    "verdict.judge: member: Verdict.ERROR -> Verdict.PASS",
    # a comparison turned round, and one at its boundary
    "finding._meets: compare: observed >= value -> observed <= value",
    "finding._meets: compare: observed >= value -> observed > value",
    # what is not a number compared as one, units not compared, a missing sample ignored
    "finding._meets: never: isinstance(observed, float) and (not math.isfinite(observed))",
    "finding._hold_sample: never: sample.unit != limit.unit",
    "finding.hold: drop element 0: (_absent(limit, 'no sample was reported'),) -> ()",
    # an empty plan, an interrupt or a provisional number accepted
    "decision._empty_plan: drop element 0: ['nothing required was planned, so nothing can be accepted'] -> []",
    "decision.decide: member: DecisionOutcome.UNDECIDED -> DecisionOutcome.ACCEPTED",
    # a bound dropped, a floor of zero let through
    "profile_limits.module: drop element 1: ('min_fraction', 'max_fraction') -> ('min_fraction',)",
    "profile_limits._LimitReader.bound: never: len(given) > 1",
    "profile_limits._LimitReader._floor: compare: value <= 0 -> value < 0",
]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_worst_lies_are_noticed() -> None:
    command = [sys.executable, "-m", "tests.mutation"]
    for name in WORST:
        command += ["--name", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"{len(WORST)} mutants" in done.stdout, f"a name is out of date:\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, done.stdout
