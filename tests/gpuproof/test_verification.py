"""A bundle that was altered is noticed, also where whoever did it wrote checksums and reports anew."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.bundle import SIGNATURE, SUMS, BundleError, reseal, seal, sign, signed_by
from gpuproof.reading_back import rewrite_reports
from gpuproof.report import write_reports
from gpuproof.report.tables import write_parquet
from gpuproof.report.write import PARQUET, RENDERED
from gpuproof.run_folder import RECORD
from gpuproof.verification import ALTERED, UNSEALED, VERIFIED, judged_again, verify
from tests.gpuproof.finished import NODES, PROFILE, finished, view_of

Lines = list[dict[str, Any]]
Change = Callable[[Lines], object]


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which one node is slow and one ran out of memory."""
    return finished(tmp_path_factory.mktemp("rejected"), slow=("n2",), lost=("n4",))


@pytest.fixture
def run(rejected: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(rejected, tmp_path / "copy"))


def lines_of(directory: Path) -> Lines:
    return [json.loads(text) for text in (directory / RECORD).read_text(encoding="utf-8").splitlines()]


def rewrite(directory: Path, lines: Lines) -> None:
    """Write the record, and everything that could give it away, anew."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (directory / RECORD).write_text(text, encoding="utf-8")
    write_reports(view_of(directory), directory)
    seal(directory)


def one(lines: Lines, event: str, **fields: Any) -> dict[str, Any]:
    return next(line for line in lines if line["event"] == event and all(line.get(k) == v for k, v in fields.items()))


def drop(lines: Lines, event: str, **fields: Any) -> None:
    lines.remove(one(lines, event, **fields))


def slow_verdict(lines: Lines) -> dict[str, Any]:
    return one(lines, "verdict", check="speed", subject="n2")


def unplan(lines: Lines, **fields: Any) -> None:
    planned = one(lines, "planned")
    gone = [s for s in planned["subjects"] if all(s[key] == value for key, value in fields.items())]
    planned["subjects"] = [s for s in planned["subjects"] if s not in gone]


def unplan_wholly(lines: Lines, **fields: Any) -> None:
    unplan(lines, **fields)
    about = [n for n, x in enumerate(lines) if "subject" in x and all(x[key] == value for key, value in fields.items())]
    for place in reversed(about):
        del lines[place]


def waive(lines: Lines) -> None:
    for subject in ("n2", "n4"):
        waiver = {"check": "speed", "subject": subject, "owner": "o", "reason": "r", "expires": "2099-01-01"}
        one(lines, "run_started")["waivers"].append({**waiver, "expired": False})


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("report.json")


IN_THE_RECORD: dict[str, Change] = {
    "a FAIL became a PASS": lambda x: slow_verdict(x).update(verdict="PASS", reasons=[], reason_code=None),
    "a PASS became a FAIL": lambda x: one(x, "verdict", check="speed", subject="n1").update(verdict="FAIL"),
    "an ERROR became a PASS": lambda x: one(x, "verdict", check="speed", subject="n4").update(verdict="PASS"),
    "a FAIL became NOT_APPLICABLE": lambda x: slow_verdict(x).update(verdict="NOT_APPLICABLE"),
    "a FAIL became RECORDED": lambda x: slow_verdict(x).update(verdict="RECORDED"),
    "a FAIL was not selected": lambda x: slow_verdict(x).update(verdict="NOT_RUN", reason_code="not_selected"),
    "a FAIL was interrupted": lambda x: slow_verdict(x).update(verdict="NOT_RUN", reason_code="interrupted"),
    "a FAIL was blocked": lambda x: slow_verdict(x).update(
        verdict="NOT_RUN", reason_code="blocked", blocked_by="words"
    ),
    "what was blocked passed": lambda x: one(x, "verdict", check="words", subject="n2").update(
        verdict="PASS", reasons=[], reason_code=None, blocked_by=None
    ),
    "another check blocked it": lambda x: one(x, "verdict", check="words", subject="n2").update(blocked_by="words"),
    "the decision became ACCEPTED": lambda x: one(x, "decision").update(outcome="ACCEPTED", exit_code=0),
    "the decision became UNDECIDED": lambda x: one(x, "decision").update(outcome="UNDECIDED", exit_code=3),
    "the exit code changed": lambda x: one(x, "decision").update(exit_code=0),
    "the decision's reasons changed": lambda x: one(x, "decision").update(reasons=["nothing to see here"]),
    "the scope grew": lambda x: one(x, "decision").update(scope="all 400 nodes"),
    "the counts changed": lambda x: one(x, "decision")["counts"].update(FAIL=0),
    "a waiver was claimed": lambda x: one(x, "decision").update(waived=["speed on n2 is FAIL, waived"]),
    "a sample was raised": lambda x: one(x, "measurement", check="speed", subject="n2")["samples"][0].update(
        value=600.0
    ),
    "a sample changed its unit": lambda x: one(x, "measurement", check="speed", subject="n1")["samples"][0].update(
        unit="MB/s"
    ),
    "a sample changed its point": lambda x: one(x, "measurement", check="speed", subject="n1")["samples"][0].update(
        at={"bytes": 4096, "gpu": 0}
    ),
    "a sample went away": lambda x: one(x, "measurement", check="speed", subject="n1")["samples"].pop(),
    "the fleet was made slower": lambda x: [
        sample.update(value=1.0)
        for line in x
        if line["event"] == "measurement" and line["subject"] == "n3"
        for sample in line["samples"]
    ],
    "a fact changed": lambda x: one(x, "measurement", check="words", subject="n1")["facts"].update(driver="1.0"),
    "a GPU is there twice": lambda x: one(x, "measurement", check="words", subject="n3")["facts"].update(
        uuid=["GPU-n1-0", "GPU-n3-1"]
    ),
    "a finding was met": lambda x: slow_verdict(x)["findings"][0].update(outcome="met"),
    "a finding observed more": lambda x: slow_verdict(x)["findings"][0].update(observed=600.0),
    "a finding asked for less": lambda x: slow_verdict(x)["findings"][0].update(bound=">= 200 GB/s"),
    "a finding no longer decides": lambda x: slow_verdict(x)["findings"][0].update(severity="warn"),
    "the findings went away": lambda x: slow_verdict(x).update(findings=[]),
    "the reasons of a verdict changed": lambda x: slow_verdict(x).update(reasons=["the buyer's fault"]),
    "a measurement went away": lambda x: drop(x, "measurement", check="speed", subject="n1"),
    "a failure went away": lambda x: drop(x, "failure", check="speed", subject="n4"),
    "a failure changed its reason": lambda x: one(x, "failure", subject="n4").update(reason="node_lost"),
    "a verdict went away": lambda x: drop(x, "verdict", check="speed", subject="n2"),
    "a subject was never planned": lambda x: unplan(x, check="speed", subject="n2"),
    "a node was never there": lambda x: unplan_wholly(x, subject="n2"),
    "a check was never asked": lambda x: unplan_wholly(x, check="speed"),
    "a subject was not required": lambda x: one(x, "planned")["subjects"][1].update(required=False),
    "a verdict was not required": lambda x: slow_verdict(x).update(required=False),
    "a node was out of scope": lambda x: one(x, "inventory")["nodes"][1].update(in_scope=False),
    "fewer nodes were expected": lambda x: one(x, "run_started").update(expected_nodes=3),
    "fewer GPUs were expected": lambda x: one(x, "run_started").update(gpus_per_node=1),
    "a limit of the record was lowered": lambda x: one(x, "run_started")["limits"][0].update(bound=">= 200 GB/s"),
    "a check was only recorded": lambda x: one(x, "run_started")["checks"][0].update(state="recorded"),
    "waivers were added": waive,
    "another profile judged": lambda x: one(x, "run_started")["profile"].update(sha256="0" * 64),
    "the decision went away": lambda x: drop(x, "decision"),
    "the end went away": lambda x: drop(x, "run_finished"),
    "the start went away": lambda x: drop(x, "run_started"),
    "it was interrupted": lambda x: x.insert(
        -2, {"seq": 0, "t": x[-1]["t"], "event": "interrupted", "signal": "SIGINT"}
    ),
    "a line makes no sense": lambda x: slow_verdict(x).update(verdict="SPLENDID"),
}
IN_THE_FOLDER: dict[str, Callable[[Path], object]] = {
    **{
        f"{name} was changed": lambda d, name=name: (d / name).write_text((d / name).read_text() + " ")  # type: ignore[misc]
        for name in RENDERED
    },
    "a byte of the record was flipped": lambda d: (d / RECORD).write_bytes(
        (d / RECORD).read_bytes().replace(b"2", b"3", 1)
    ),
    "the record was cut": lambda d: (d / RECORD).write_bytes((d / RECORD).read_bytes()[:-40]),
    "the profile was changed": lambda d: (d / "profile/0/profile.toml").write_text(PROFILE.replace("400\n", "200\n")),
    "the profile is another file": lambda d: (d / "profile/index.json").write_text(
        '[{"file": "../record.jsonl", "path": ""}]'
    ),
    "a dispute pack went away": lambda d: shutil.rmtree(d / "dispute"),
    "a file was added": lambda d: (d / "note.txt").write_text("trust me"),
    "the checksums lost a line": lambda d: (d / SUMS).write_text("\n".join((d / SUMS).read_text().splitlines()[1:])),
    "the checksums are no checksums": lambda d: (d / SUMS).write_text("fine\n"),
    "the checksums went away": lambda d: (d / SUMS).unlink(),
    "the table was changed": lambda d: (d / PARQUET).write_bytes((d / PARQUET).read_bytes()[:-1] + b" "),
    "a report became a link": lambda d: linked(d / "report.html"),
}


def test_a_bundle_as_it_was_left_is_verified(run: Path) -> None:
    found = verify(run)
    assert (found.altered, found.contradictions, found.outcome) == ((), (), "REJECTED")
    assert found.exit_code == VERIFIED
    assert found.verdicts == 2 * len(NODES)
    rewrite(run, lines_of(run))
    assert verify(run).exit_code == VERIFIED


@pytest.mark.parametrize("how", IN_THE_RECORD)
def test_a_record_that_contradicts_itself_is_noticed(rejected: Path, how: str) -> None:
    lines = lines_of(rejected)
    IN_THE_RECORD[how](lines)
    for number, line in enumerate(lines, start=1):
        line["seq"] = number

    assert judged_again(lines, rejected)


@pytest.mark.parametrize("how", ["a FAIL became a PASS", "the decision became ACCEPTED", "a sample was raised"])
def test_new_checksums_and_reports_do_not_cover_it_up(run: Path, how: str) -> None:
    lines = lines_of(run)
    IN_THE_RECORD[how](lines)
    rewrite(run, lines)

    found = verify(run)

    assert found.altered == ()
    assert found.contradictions
    assert found.exit_code == ALTERED


@pytest.mark.parametrize("how", IN_THE_FOLDER)
def test_a_folder_that_is_not_as_it_was_sealed_is_noticed(run: Path, how: str) -> None:
    IN_THE_FOLDER[how](run)

    found = verify(run)

    assert found.altered
    assert found.exit_code == ALTERED


@pytest.mark.parametrize("name", RENDERED)
def test_a_report_that_the_record_does_not_render_to_is_noticed_under_new_checksums(run: Path, name: str) -> None:
    (run / name).write_text((run / name).read_text(encoding="utf-8").replace("REJECTED", "ACCEPTED") + "\n")
    seal(run)
    assert f"{name} is not what the record renders to" in verify(run).contradictions


def test_a_table_of_another_run_is_noticed_under_new_checksums(run: Path, tmp_path: Path) -> None:
    write_parquet(view_of(finished(tmp_path / "other")), run / PARQUET)
    seal(run)
    assert f"{PARQUET} is not what the record renders to" in verify(run).contradictions


def test_a_limit_lowered_in_profile_and_record_does_not_make_the_old_verdicts_follow(run: Path) -> None:
    lines, copy = lines_of(run), run / "profile/0/profile.toml"
    copy.write_text(copy.read_text(encoding="utf-8").replace("= 400", "= 200"), encoding="utf-8")
    one(lines, "run_started")["limits"][0]["bound"] = ">= 200 GB/s"
    rewrite(run, lines)
    assert any("sha256" in sentence for sentence in verify(run).contradictions)
    assert any("speed on n2 is FAIL" in sentence for sentence in verify(run).contradictions)


def test_lines_that_changed_places_are_noticed(run: Path) -> None:
    lines = lines_of(run)
    lines[4], lines[5] = lines[5], lines[4]
    rewrite(run, lines)
    assert any("missing, added or moved" in sentence for sentence in verify(run).contradictions)


def test_a_killed_run_is_unsealed_and_not_altered(run: Path) -> None:
    (run / SUMS).unlink()
    text = (run / RECORD).read_text(encoding="utf-8").splitlines(keepends=True)
    (run / RECORD).write_text("".join(text[:9]), encoding="utf-8")
    assert verify(run).exit_code == UNSEALED


def test_reports_can_be_written_anew_and_a_new_seal_covers_nothing_up(run: Path) -> None:
    (run / "report.html").unlink()
    assert rewrite_reports(run) == 1
    assert verify(run).exit_code == VERIFIED
    (run / RECORD).write_bytes((run / RECORD).read_bytes().replace(b"301.0", b"601.0"))
    rewrite_reports(run)
    assert verify(run).exit_code == ALTERED
    assert not reseal(run, {*RENDERED, "dispute"})


def test_a_signature_ties_a_bundle_to_a_person(run: Path, tmp_path: Path) -> None:
    key, other, allowed = tmp_path / "key", tmp_path / "other", tmp_path / "allowed"
    for path in (key, other):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), "-C", "test"]
        subprocess.run(command, check=True, timeout=30)
    allowed.write_text("buyer@example.org " + key.with_suffix(".pub").read_text())
    assert verify(run, allowed_signers=allowed, identity="buyer@example.org").exit_code == ALTERED

    sign(run, key)
    assert verify(run, allowed_signers=allowed, identity="buyer@example.org").exit_code == VERIFIED
    assert "Good" in signed_by(run, None, None)

    (run / SUMS).write_text((run / SUMS).read_text() + "\n")
    assert any("does not hold" in sentence for sentence in verify(run).altered)
    seal(run)
    assert not (run / SIGNATURE).exists()
    sign(run, other)
    with pytest.raises(BundleError, match="does not hold"):
        signed_by(run, allowed, "buyer@example.org")
    with pytest.raises(BundleError, match="did not sign"):
        sign(run, tmp_path / "absent")
