"""Owns how a bad profile is explained to a person; must not know what a good one means."""

import datetime as dt
import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Loc = tuple[str | int, ...]


class ProfileError(Exception):
    """A profile that must not be used: which file and key, what was expected, what is there, what to do."""

    def __init__(
        self,
        file: Path,
        key: str,
        expected: str,
        actual: str,
        next_step: str,
        *,
        line: int | None = None,
        others: Sequence[str] = (),
    ) -> None:
        """Keep the parts; `line` counts from 1, `others` are keys with further problems in the same file."""
        self.file = file
        self.key = key
        self.expected = expected
        self.actual = actual
        self.next_step = next_step
        self.line = line
        self.others = tuple(others)
        super().__init__(str(self))

    def __str__(self) -> str:
        """Write one message of a few lines, the place first."""
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        lines = [
            f"{place}: {self.key}",
            f"  expected: {self.expected}",
            f"  found:    {self.actual}",
            f"  next:     {self.next_step}",
        ]
        if self.others:
            lines.append(f"  also wrong in this file: {', '.join(self.others)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Source:
    """One profile file as read: its path, its text and the raw TOML tables."""

    path: Path
    text: str
    raw: dict[str, Any]

    def error(
        self, loc: Loc, *, expected: str, actual: str, next_step: str, others: Sequence[str] = ()
    ) -> ProfileError:
        """Return an error about one key of this file, with its line."""
        return ProfileError(
            self.path,
            key_text(loc),
            expected,
            actual,
            next_step,
            line=find_line(self.text, loc),
            others=others,
        )


def key_text(loc: Loc) -> str:
    """Write a location as `limit[3].at.bytes`; array entries count from 0."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
            text += f".{plain}" if text else plain
    return text or "the whole file"


def find_line(text: str, loc: Loc) -> int | None:
    """Return the line, from 1, of the deepest table or key of a TOML text that contains a location."""
    here: Loc = ()
    entries: dict[Loc, int] = {}
    best: tuple[int, int | None] = (0, None)
    for count, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*(\[\[?)([^\]]+)\]", line)
        if header:
            here = _parts(header[2])
            if header[1] == "[[":
                entries[here] = entries.get(here, -1) + 1
                here = (*here, entries[here])
            place = here
        else:
            key = re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""", line)
            if key is None:
                continue
            place = here + _parts(key[1])
        if loc[: len(place)] == place and len(place) > best[0]:
            best = (len(place), count)
    return best[1]


def _parts(text: str) -> Loc:
    return tuple(part.strip("\"'") for part in re.findall(r""""[^"]*"|'[^']*'|[\w-]+""", text))


def describe(value: Any) -> str:
    """Write a TOML value with its kind, e.g. `the text "400"`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()}"
        case str():
            return f'the text "{value[:80]}"'
        case int() | float():
            return f"the number {value:.15g}"
        case dt.date() | dt.time():
            return f"the {'date and time' if isinstance(value, dt.datetime) else 'date'} {value}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"a table with {', '.join(sorted(map(str, value))) or 'no keys'}"
        case _:
            return repr(value)[:80]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the nearest known word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def from_toml(path: Path, text: str, error: tomllib.TOMLDecodeError) -> ProfileError:
    """Explain a file that is no TOML, a doubled key and an impossible date among them."""
    said = str(error)
    at = re.search(r"at line (\d+)", said)
    line = int(at[1]) if at else None
    lines = text.splitlines()
    content = lines[line - 1].strip() if line and line <= len(lines) else ""
    expected, next_step = "valid TOML", "correct this line; https://toml.io shows the syntax"
    if re.search(r"overwrite|twice|mutate|redefine|already", said):
        expected, next_step = "every key and table once", "keep one of the two and delete the other"
        if content.startswith("[["):
            expected, next_step = "two brackets around every entry of a list", f"write {content} at each of them"
    elif re.search(r"=\s*\d{4}-\d{1,2}-\d{1,2}\s*(#|$)", content):
        expected, next_step = "a day that exists, written as 2027-01-31", "correct the date"
    return ProfileError(path, content or "the whole file", expected, said, next_step, line=line)
