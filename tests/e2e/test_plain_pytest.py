"""`pytest acceptance/ …` is the same run without the wrapper, and a check that misbehaves cannot slip through."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from gpuproof.record import read_record
from gpuproof.verification import verify
from tests.e2e.profiles import QUICK, few_checks

PROFILE = """
schema = 1
profile = "private"
extends = "simulated"

[checks]
odd = "required"

[[limit]]
check = "odd"
metric = "gpus_visible"
unit = "count"
per = "node"
expected = "gpus_per_node"
severity = "fail"
provenance = { kind = "derived", formula = "[cluster] gpus_per_node" }
"""
CHECK = '''"""Odd: does a check that misbehaves get away with it?"""
import pytest
from gpuproof import Hold, NodeSubject, RunWorkload
pytestmark = pytest.mark.check("odd")
'''
TEST = "def test_odd(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:\n"
MADE_UP = """    from workloads.contract import Measurement, Sample
    hold(Measurement("gpu_inventory", "r", node.name, "p", 1, 1, (Sample("gpus_visible", 2.0, "count"),)))
"""
ODD = {
    "swallows the failure": TEST + "    try:\n        hold()\n    except BaseException:\n        pass\n",
    "skips itself": TEST + '    pytest.skip("no reason")\n    hold()\n',
    "is marked to be skipped": '@pytest.mark.skip(reason="x")\n' + TEST + "    hold()\n",
    "is expected to fail": '@pytest.mark.xfail(reason="x", strict=False)\n' + TEST + "    hold()\n",
    "raises": TEST + '    raise RuntimeError("broke")\n    hold()\n',
    "holds what it made up": TEST + MADE_UP,
    "holds another node's answer": TEST + '    hold(run_workload("gpu_inventory", NodeSubject("gpu-02")))\n',
    "breaks after its verdict": TEST
    + '    hold(run_workload("gpu_inventory", node))\n    raise RuntimeError("broke")\n',
    "holds twice": TEST + '    a = run_workload("gpu_inventory", node)\n    hold(a)\n    hold(a)\n',
}


def run_pytest(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=cwd)


def totals_of_pytest(text: str) -> dict[str, int]:
    """What pytest's own summary line says, by its words."""
    found = dict.fromkeys(("passed", "failed", "skipped"), 0)
    return found | {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped)", text)}


def totals_of_the_report(out: Path) -> dict[str, int]:
    """The verdicts that report.json counts, by the word that pytest has for each."""
    counts = Counter(json.loads((out / "report.json").read_text(encoding="utf-8"))["counts"])
    return {
        "passed": counts["PASS"] + counts["RECORDED"],
        "failed": counts["FAIL"] + counts["ERROR"] + counts["NOT_RUN"],
        "skipped": counts["NOT_APPLICABLE"],
    }


def totals_of_junit(out: Path) -> dict[str, int]:
    """The cases of junit.xml without the one for the decision."""
    suites = [s for s in ET.parse(out / "junit.xml").iter("testsuite") if s.get("name") != "gpuproof.decision"]
    cases, skipped, failures, errors = (
        sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "skipped", "failures", "errors")
    )
    return {"passed": cases - skipped - failures - errors, "failed": failures + errors, "skipped": skipped}


def test_plain_pytest_is_the_same_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    profile = str(few_checks(tmp_path, *QUICK))
    done = run_pytest("acceptance/", "--profile", profile, "--cluster", "sim", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ACCEPTED" in done.stdout
    assert totals_of_pytest(done.stdout) == totals_of_the_report(out) == totals_of_junit(out)
    found = verify(out)
    assert (found.exit_code, found.altered, found.contradictions) == (0, (), ())
    assert read_record(out / "record.jsonl")[-2]["outcome"] == "ACCEPTED"
    assert "ACCEPTED" in (out / "pytest.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["acceptance/"], "--profile"),
        (["acceptance/", "--profile", "thresholds/simulated.toml"], "exactly one cluster"),
        (["acceptance/", "--profile", "thresholds/simulated.toml", "--cluster", "sim", "-n", "2"], "asks all nodes"),
    ],
)
def test_without_profile_or_cluster_or_with_workers_nothing_starts(arguments: list[str], said: str) -> None:
    done = run_pytest(*arguments)
    assert (done.returncode, said in done.stdout + done.stderr) == (4, True), done.stdout + done.stderr


def test_checks_that_misbehave_are_errors_and_nothing_is_accepted(tmp_path: Path) -> None:
    checks = tmp_path / "checks"
    checks.mkdir()
    profile = PROFILE
    for number, (how, text) in enumerate(ODD.items()):
        name = f"odd_{number}"
        (checks / f"test_{name}.py").write_text(CHECK.replace('"odd"', f'"{name}"') + text, encoding="utf-8")
        profile = profile.replace("[checks]\n", f'[checks]\n{name} = "required"  # {how}\n')
        profile += PROFILE.partition("[[limit]]")[2].replace('"odd"', f'"{name}"').join(("\n[[limit]]", ""))
    first, _, rest = profile.partition("[[limit]]")
    profile = first.replace('odd = "required"\n', "") + "[[limit]]" + rest.partition("[[limit]]")[2]
    (tmp_path / "site.toml").write_text(profile, encoding="utf-8")
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim", "--profile"]
    command += [str(tmp_path / "site.toml"), "--private-checks", str(checks), "--out", str(tmp_path / "run")]
    only = [word for number in range(len(ODD)) for word in ("--only", f"odd_{number}")]
    done = subprocess.run(
        [*command, *only, "--nodes", "gpu-01", "--nodes", "gpu-02"], capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 3, done.stdout + done.stderr
    judged = {
        line["check"]: line
        for line in read_record(tmp_path / "run" / "record.jsonl")
        if line["event"] == "verdict" and line["subject"] == "gpu-01" and line["check"].startswith("odd")
    }
    verdicts = {how: judged[f"odd_{number}"]["verdict"] for number, how in enumerate(ODD)}
    assert verdicts == dict.fromkeys(ODD, "ERROR"), [line["reasons"] for line in judged.values()]
