"""Says whether a run's folder is as it was sealed, and whether its verdicts and decision follow from what is in it.

Reads the folder and nothing else. It must not know a cluster, and repairs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from gpuproof import __version__
from gpuproof.bundle import SUMS, BundleError, altered, copied_profile, signed_by
from gpuproof.limits import Asks
from gpuproof.profile import Profile, load_copied
from gpuproof.profile_error import ProfileError
from gpuproof.record import RecordError, read_record
from gpuproof.rejudging import contradictions, day_of
from gpuproof.report import RunView
from gpuproof.report.tables import can_write_parquet, holds_parquet
from gpuproof.report.wording import plural, visible
from gpuproof.report.write import PARQUET, RENDERED
from gpuproof.run_folder import RECORD

VERIFIED, ALTERED, UNSEALED = 0, 1, 3
_MOST_SHOWN = 40


@dataclass(frozen=True)
class Verification:
    """What was found; `notes` do not count against the bundle. `sealed` is False where no run got as far as a seal."""

    sealed: bool
    altered: tuple[str, ...]
    contradictions: tuple[str, ...]
    notes: tuple[str, ...]
    outcome: str | None = None
    verdicts: int = 0
    digest: str = ""

    @property
    def exit_code(self) -> int:
        """0 where everything holds, 1 where anything does not, 3 where the run was killed before it was sealed."""
        if self.altered or self.contradictions:
            return ALTERED
        return VERIFIED if self.sealed else UNSEALED


def verify(directory: Path, *, allowed_signers: Path | None = None, identity: str | None = None) -> Verification:
    """Verify a run's folder; never raises for what is in it."""
    sealed = (directory / SUMS).is_file()
    notes: list[str] = []
    said: list[str] = []
    changed = altered(directory)
    try:
        lines = read_record(directory / RECORD)
    except (OSError, RecordError) as error:
        return Verification(sealed, tuple(changed), (f"the record cannot be read: {error}",), ())
    decided = any(line["event"] == "decision" for line in lines)
    if not sealed and not decided:
        return Verification(False, (), (), ("the run was killed before it was decided; --resume continues it",))
    said += judged_again(lines, directory)
    view = RunView.from_record(lines)
    made_with = view.run.gpuproof
    if made_with == __version__:
        said += _rendered_again(view, directory)
    else:
        notes.append(
            f"made with gpuproof {made_with}, verified with {__version__}: its reports were not rendered again"
        )
    changed += _signature(directory, allowed_signers, identity, notes)
    digest = hashlib.sha256((directory / SUMS).read_bytes()).hexdigest() if sealed else ""
    return Verification(
        sealed, tuple(changed), tuple(said), tuple(notes), view.decision.outcome, len(view.subjects), digest
    )


def judged_again(lines: Sequence[Mapping[str, Any]], directory: Path) -> list[str]:
    """What in these lines does not follow from their measurements and from the profile in the folder, in words."""
    try:
        return list(_judged_again(lines, directory))
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
        return [f"the record is not one that gpuproof writes: {type(error).__name__}: {error}"]


def _judged_again(lines: Sequence[Mapping[str, Any]], directory: Path) -> Iterator[str]:
    started = next((line for line in reversed(lines) if line["event"] == "run_started"), None)
    if started is None:
        yield "the record has no start: nothing says what was tested"
        return
    try:
        profile = _profile(started, directory)
    except (BundleError, ProfileError) as error:
        yield f"the profile in the bundle cannot be read: {error}"
        return
    yield from contradictions(lines, profile)


def _profile(started: Mapping[str, Any], directory: Path) -> Profile:
    known = {str(check["check"]): Asks(cluster=True, nodes=True) for check in started["checks"]}
    files = [(copied.file, copied.path) for copied in copied_profile(directory)]
    return load_copied(files, known_checks=known, today=day_of(started))


def _rendered_again(view: RunView, directory: Path) -> Iterator[str]:
    for name, render in RENDERED.items():
        try:
            there = (directory / name).read_bytes()
        except OSError:
            yield f"{name} is missing"
            continue
        if there != render(view).encode("utf-8"):
            yield f"{name} is not what the record renders to"
    if (directory / PARQUET).exists() and can_write_parquet() and not holds_parquet(view, directory / PARQUET):
        yield f"{PARQUET} is not what the record renders to"


def _signature(directory: Path, allowed_signers: Path | None, identity: str | None, notes: list[str]) -> list[str]:
    wanted = allowed_signers is not None
    try:
        notes.append(signed_by(directory, allowed_signers, identity))
    except BundleError as error:
        if wanted or "does not hold" in str(error):
            return [str(error)]
        notes.append(f"{error}: checksums alone do not say who made it")
    return []


def print_verification(console: Console, directory: Path, found: Verification) -> None:
    """Print what was found, the worst first."""
    for title, sentences in (("altered", found.altered), ("contradiction", found.contradictions)):
        for sentence in sentences[:_MOST_SHOWN]:
            console.print(Text(visible(f"{title}: {sentence}"), "bold red"), soft_wrap=True)
        if len(sentences) > _MOST_SHOWN:
            console.print(f"and {len(sentences) - _MOST_SHOWN} more of this kind")
    for note in found.notes:
        console.print(Text(visible(f"note: {note}")), soft_wrap=True)
    if found.exit_code == VERIFIED:
        console.print(
            f"VERIFIED {directory}: nothing was altered, {plural(found.verdicts, 'verdict')} and the decision "
            f"{found.outcome} follow from its record and its profile",
            soft_wrap=True,
        )
        console.print(f"SHA-256 of its {SUMS}: {found.digest}", soft_wrap=True)
    elif found.exit_code == ALTERED:
        console.print(Text(f"NOT VERIFIED {directory}: do not rely on it", "bold red"), soft_wrap=True)
    else:
        console.print(f"NOT SEALED {directory}: the run did not get to its end", soft_wrap=True)
