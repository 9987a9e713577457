"""The proof that each check can fail: the clean simulated cluster, then every fault, each against what it must cause.

It drives the same command a user runs, in processes of its own, and must not know how a check works.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuproof.profile import THRESHOLDS
from gpuproof.record import read_record

CLEAN = "clean"
RUN_WITHIN_S = 900
ALL, MISSING, CLUSTER = "all", "missing", "cluster"

Key = tuple[str, str]


class SelftestError(Exception):
    """The self-test cannot be run as asked."""


class Expectation(BaseModel):
    """What a fault must cause: a verdict of a check on the `cluster`, on one node, on `all` nodes or `missing` ones."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    check: str
    subject: str
    verdict: str
    reason: str | None = None
    names: str | None = None
    warns: str | None = None
    """The metric or fact that must be shown as missed although it decides nothing."""

    def covers(self, key: Key) -> bool:
        """Whether it speaks about this check on this subject."""
        check, subject = key
        if check != self.check:
            return False
        if self.subject == ALL:
            return subject != CLUSTER
        if self.subject == MISSING:
            return subject.startswith("missing-")
        return subject == self.subject


class Fault(BaseModel):
    """A fault as the simulated cluster lists it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    title: str
    mechanism: str
    only_in_selftest: bool = False
    expects: tuple[Expectation, ...]

    @property
    def outcome(self) -> str:
        """The decision it must lead to: REJECTED where any check is to FAIL, ACCEPTED where all are to cope with it."""
        verdicts = {expected.verdict for expected in self.expects}
        return "REJECTED" if "FAIL" in verdicts else "ACCEPTED" if verdicts == {"PASS"} else "UNDECIDED"


@dataclass(frozen=True)
class Row:
    """One verdict of a run."""

    verdict: str
    reason_code: str | None
    blocked_by: str | None
    reasons: tuple[str, ...] = ()
    warned: frozenset[str] = frozenset()
    """Metrics and facts that were missed without deciding."""


@dataclass(frozen=True)
class Reached:
    """What one run came to."""

    outcome: str
    exit_code: int
    rows: Mapping[Key, Row]
    output: str


EXIT_CODES = {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 3}


def list_faults() -> tuple[Fault, ...]:
    """The faults that the simulated cluster can inject, as its own command lists them."""
    done = subprocess.run([sys.executable, "-m", "simcluster", "faults"], capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SelftestError(f"the simulated cluster does not list its faults: {done.stderr.decode(errors='replace')}")
    return TypeAdapter(tuple[Fault, ...]).validate_json(done.stdout)


def complaints(fault: Fault | None, reached: Reached, only: Collection[str] = ()) -> list[str]:
    """Everything in which a run differs from what the fault (None: the clean cluster) must cause.

    `only` are the checks that the run was narrowed to, where it was; of the others nothing is expected.
    """
    outcome = fault.outcome if fault else "ACCEPTED"
    if only and outcome == "ACCEPTED":
        outcome = "UNDECIDED"  # a narrowed run speaks for nobody
    found = []
    if reached.outcome != outcome or reached.exit_code != EXIT_CODES[outcome]:
        wanted = f"{outcome} with {EXIT_CODES[outcome]}"
        found.append(f"decision {reached.outcome} with exit code {reached.exit_code}, expected {wanted}")
    expects = fault.expects if fault else ()
    for expected in expects:
        covered = {key: row for key, row in reached.rows.items() if expected.covers(key)}
        if not covered:
            found.append(f"{expected.check} was not asked of {expected.subject}")
        found += [text for key, row in covered.items() if (text := _differs(expected, key, row))]
    named = _blockers({expected.check for expected in expects if expected.verdict != "PASS"}, reached.rows)
    for key, row in reached.rows.items():
        if any(expected.covers(key) for expected in expects) or (only and key[0] not in only):
            continue
        blocked = row.verdict == "NOT_RUN" and row.blocked_by in named
        # What the profile leaves out no fault can touch.
        if row.verdict not in ("PASS", "NOT_APPLICABLE") and not blocked:
            found.append(f"{key[0]} on {key[1]} is {row.verdict} ({row.reason_code}), which this fault must not touch")
    return found


def _blockers(named: set[str], rows: Mapping[Key, Row]) -> set[str]:
    """The named checks, and those that one of these blocked: what they block in turn is of the same fault."""
    found = set(named)
    while more := {key[0] for key, row in rows.items() if row.blocked_by in found} - found:
        found |= more
    return found


def _differs(expected: Expectation, key: Key, row: Row) -> str | None:
    if row.verdict != expected.verdict:
        return f"{key[0]} on {key[1]} is {row.verdict} ({row.reason_code}), expected {expected.verdict}"
    if expected.reason is not None and row.reason_code != expected.reason:
        return f"{key[0]} on {key[1]} gives the reason {row.reason_code}, expected {expected.reason}"
    if expected.names is not None and not any(expected.names in reason for reason in row.reasons):
        return f"{key[0]} on {key[1]} says {'; '.join(row.reasons)}, expected {expected.names}"
    if expected.warns is not None and expected.warns not in row.warned:
        shown = ", ".join(sorted(row.warned)) or "nothing"
        return f"{key[0]} on {key[1]} warns of {shown}, expected {expected.warns}"
    return None


def run_once(
    faults: Sequence[str],
    out: Path,
    profile: Path = THRESHOLDS / "simulated.toml",
    only: Iterable[str] = (),
    topology: str = "small",
) -> Reached:
    """Run the suite, or `only` these checks, on a fresh simulated cluster with these faults; everything it came to."""
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim"]
    command += ["--profile", str(profile), "--out", str(out), "--sim-topology", topology]
    command += [word for check in only for word in ("--only", check)]
    command += [word for fault in faults for word in ("--sim-fault", fault)]
    done = subprocess.run(command, capture_output=True, timeout=RUN_WITHIN_S, check=False, stdin=subprocess.DEVNULL)
    output = (done.stdout + done.stderr).decode(errors="replace")
    try:
        lines = read_record(out / "record.jsonl")
    except (OSError, ValueError) as error:
        return Reached("NONE", done.returncode, {}, f"{output}\n{error}")
    return Reached(_outcome(lines), done.returncode, rows_of(lines), output)


def rows_of(lines: Sequence[Mapping[str, Any]]) -> dict[Key, Row]:
    """The verdicts of a record."""
    return {
        (line["check"], line["subject"]): Row(
            line["verdict"],
            line["reason_code"],
            line["blocked_by"],
            tuple(line["reasons"]),
            _warned(line.get("findings") or ()),
        )
        for line in lines
        if line["event"] == "verdict"
    }


def _warned(findings: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(str(f["metric"]) for f in findings if f["severity"] == "warn" and f["outcome"] == "missed")


def _outcome(lines: Sequence[Mapping[str, Any]]) -> str:
    decisions = [str(line["outcome"]) for line in lines if line["event"] == "decision"]
    return decisions[-1] if decisions else "NONE"


def selftest(only: Sequence[str], jobs: int) -> int:
    """Run clean and faults, print the matrix; 0 only if all of them came to what they must."""
    faults = list_faults()
    unknown = set(only) - {fault.id for fault in faults}
    if unknown:
        raise SelftestError(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(f.id for f in faults)}")
    chosen: list[Fault | None] = [None, *(fault for fault in faults if not only or fault.id in only)]
    console = Console()
    bad = 0
    matrix: list[tuple[Fault | None, Reached, list[str]]] = []
    with tempfile.TemporaryDirectory(prefix="gpuproof-selftest-") as folder, ThreadPoolExecutor(jobs) as pool:
        runs = [(fault, pool.submit(run_once, _ids(fault), Path(folder, _name(fault)))) for fault in chosen]
        for fault, running in runs:
            reached = running.result()
            wrong = complaints(fault, reached)
            matrix.append((fault, reached, wrong))
            bad += bool(wrong)
            console.print(Text(f"{'ok  ' if not wrong else 'BAD '} {_name(fault)}: {reached.outcome}"))
            for text in wrong:
                console.print(Text(f"       {text}"))
    console.print(_matrix(matrix))
    console.print(f"{len(matrix) - bad} of {len(matrix)} runs came to what they must")
    return 1 if bad else 0


def _name(fault: Fault | None) -> str:
    return fault.id if fault else CLEAN


def _ids(fault: Fault | None) -> list[str]:
    return [fault.id] if fault else []


def _matrix(runs: Sequence[tuple[Fault | None, Reached, list[str]]]) -> Table:
    """Fault by check, each cell the verdicts reached and on how many subjects."""
    checks = list(dict.fromkeys(check for _, reached, _ in runs for check, _ in reached.rows))
    table = Table("fault", "mechanism", "decision", *checks, "as expected")
    for fault, reached, wrong in runs:
        cells = [_cell(reached, check) for check in checks]
        mechanism = fault.mechanism if fault else ""
        table.add_row(_name(fault), mechanism, reached.outcome, *cells, "no" if wrong else "yes")
    return table


def _cell(reached: Reached, check: str) -> str:
    counts: dict[str, int] = {}
    for (name, _), row in reached.rows.items():
        if name == check:
            counts[row.verdict] = counts.get(row.verdict, 0) + 1
    return " ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
