"""Commands about runs that are over: their reports, their verification. They read folders and never a cluster."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from gpuproof.bundle import BundleError, reseal, sign
from gpuproof.decision import DecisionOutcome, exit_code
from gpuproof.options import LaunchError
from gpuproof.record import RecordError, read_record
from gpuproof.report import RunView, write_reports
from gpuproof.report.dispute import FOLDER
from gpuproof.report.terminal import print_summary
from gpuproof.report.write import PARQUET, RENDERED
from gpuproof.run_folder import RECORD
from gpuproof.verification import print_verification, verify


def rewrite_reports(path: Path) -> int:
    """Write the reports of a run's folder again from its record; the exit code of its decision."""
    record = path if path.is_file() else path / RECORD
    console = Console()
    try:
        view = RunView.from_record(read_record(record))
        reports = write_reports(view, record.parent)
        whole = reseal(record.parent, {*RENDERED, PARQUET, FOLDER})
    except (OSError, RecordError) as error:
        raise LaunchError(f"no report from {record}: {error}") from error
    print_summary(console, view, reports.html)
    if not whole:
        console.print("This folder is not as it was sealed; see `gpuproof verify`.", style="bold red")
    return exit_code(DecisionOutcome(view.decision.outcome))


def verify_run(directory: Path, allowed_signers: Path | None, identity: str | None, sign_with: Path | None) -> int:
    """Verify a run's folder, say what was found, and sign it where asked; the exit code of the verification."""
    if not (directory / RECORD).is_file():
        raise LaunchError(f"{directory} holds no run: there is no {RECORD} in it")
    found = verify(directory, allowed_signers=allowed_signers, identity=identity)
    console = Console()
    print_verification(console, directory, found)
    if sign_with is not None and found.exit_code == 0:
        try:
            sign(directory, sign_with)
        except BundleError as error:
            raise LaunchError(str(error)) from error
        console.print(f"signed with {sign_with}", soft_wrap=True)
    return found.exit_code
