"""Numbered, checksummed lines on standard output: how a pod that lives long, or is killed, says what it found.

Owns the line format. It must not know what the lines mean, and it runs in the team's image: Python 3.9 syntax, standard
library only. A termination message is written once, at the end; these lines arrive while the pod lives, and what
arrived before a kill counts.

    gpuproof-line/1 <number from 1 on> <crc32, 8 hex digits> <+|.> <piece of a JSON object>

The checksum covers number, sign and piece. A value that does not fit one line goes on in the next ("+"), the last piece
has a full stop. Each line is one write of at most 4096 bytes, which a pipe keeps whole whoever else writes to it. The
value {"end": true} closes the stream: without it nobody knows whether the rest was lost.
"""

from __future__ import annotations

import binascii
import json
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

MAGIC = "gpuproof-line/1"
MAX_LINE_BYTES = 4096
"""What a pipe takes as one piece (PIPE_BUF of Linux), and far less than where a container runtime splits lines."""

END = "end"
_PIECE_BYTES = 3900
_MAX_DIGITS = 12


class DamagedLine(ValueError):
    """A line that begins as one of the stream and is not what its checksum says."""


@dataclass(frozen=True)
class Line:
    """One line: its number, whether the value goes on in the next, and its piece of the value."""

    number: int
    more: bool
    piece: str


class LineWriter:
    """Writes values, one after another, from any thread. One writer a container: numbers say what is missing."""

    def __init__(self, descriptor: Optional[int] = None) -> None:
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._lock = threading.Lock()
        self._number = 0

    def write(self, value: Mapping[str, Any]) -> None:
        """Say a JSON object; returns when the pipe has all of it."""
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, sort_keys=True)
        pieces = [text[start : start + _PIECE_BYTES] for start in range(0, len(text), _PIECE_BYTES)]
        with self._lock:
            for place, piece in enumerate(pieces):
                self._number += 1
                line = Line(self._number, place + 1 < len(pieces), piece)
                _write_all(self._descriptor, format_line(line).encode("ascii"))

    def end(self) -> None:
        """Say that nothing follows."""
        self.write({END: True})


def format_line(line: Line) -> str:
    """The line as it is written, with its end; at most `MAX_LINE_BYTES`."""
    sign = "+" if line.more else "."
    return "%s %d %s %s %s\n" % (MAGIC, line.number, _checksum(line.number, sign, line.piece), sign, line.piece)


def parse_line(text: str) -> Optional[Line]:
    """The line in a text; None where the text is something else's output. Raises `DamagedLine`.

    What another program wrote before it on the same line is skipped: it may have left its own line without an end.
    """
    start = text.find(MAGIC)
    if start < 0:
        return None
    words = text[start:].rstrip("\r\n").split(" ", 4)
    if len(words) != 5:
        raise DamagedLine("%r has %d of 5 parts" % (text[:60], len(words)))
    _, digits, checksum, sign, piece = words
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        raise DamagedLine("line number %r" % digits[:20])
    number = int(digits)
    if sign not in ("+", ".") or _checksum(number, sign, piece) != checksum:
        raise DamagedLine("line %d is not what its checksum says" % number)
    return Line(number, sign == "+", piece)


def load(pieces: str) -> Dict[str, Any]:
    """The value of all its pieces; raises `DamagedLine` where they are no JSON object."""
    try:
        value = json.loads(pieces)
    except (ValueError, RecursionError) as error:
        raise DamagedLine("a value is no JSON: %s" % error) from error
    if not isinstance(value, dict):
        raise DamagedLine("a value is %s, expected an object" % type(value).__name__)
    return value


def _checksum(number: int, sign: str, piece: str) -> str:
    return "%08x" % binascii.crc32(("%d %s %s" % (number, sign, piece)).encode("utf-8", "surrogatepass"))


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
