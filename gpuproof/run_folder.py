"""The folder of a run: its record, owned by one process at a time, and its lines by subject in memory.

It must not know a cluster or what the lines mean.
"""

from __future__ import annotations

import fcntl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from gpuproof.record import RecordError, read_record

RECORD = "record.jsonl"


class FolderError(Exception):
    """Why no run can be written to, or read from, a folder."""


class LinesBySubject:
    """The record's lines in memory: what concerns the run, and what concerns each check on each subject."""

    def __init__(self) -> None:
        self._general: list[Mapping[str, Any]] = []
        self._about: dict[tuple[str, str], list[Mapping[str, Any]]] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """Sort one line in."""
        if "subject" in line and "check" in line:
            self._about.setdefault((line["check"], line["subject"]), []).append(line)
        elif line["event"] == "run_started":
            self._general.append(line)

    def about(self, check: str, subject: str) -> list[Mapping[str, Any]]:
        """The lines of one check on one subject, with the run's own."""
        return [*self._general, *self._about.get((check, subject), [])]


def own(directory: Path, *, resumed: bool) -> BinaryIO:
    """The run's record, opened and locked for this process alone until it is closed; raises `FolderError`."""
    path = directory / RECORD
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = path.open("ab" if resumed else "xb")
    except FileExistsError as error:
        text = f"{directory} already holds a run; choose another --out, or continue it with --resume"
        raise FolderError(text) from error
    except OSError as error:
        raise FolderError(f"no run can be written to {directory}: {error.strerror}; choose another --out") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise FolderError(f"another process is running in {directory}; wait for it, or choose another --out") from error
    return file


def disown(directory: Path, file: BinaryIO, *, resumed: bool) -> None:
    """Give it up where no run came of it: a record that this process made is removed again."""
    file.close()
    if not resumed:
        (directory / RECORD).unlink(missing_ok=True)


def lines_so_far(directory: Path) -> Sequence[Mapping[str, Any]]:
    """The record of a run that is to be continued; raises `FolderError`."""
    try:
        lines = read_record(directory / RECORD)
    except RecordError as error:
        raise FolderError(str(error)) from error
    if not lines:
        raise FolderError(f"--resume {directory}: there is no run in it")
    return lines
