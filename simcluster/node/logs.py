"""Container logs: files of lines "TIME STREAM TAG TEXT", written from pipes and read back with the API's options.

Owns the file format (that of the container runtime interface). It must not know pods.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from simcluster.api.port import LogOptions
from simcluster.node.clock import now_micro

_POLL_S = 0.05
_LONGEST_LINE = 16 * 1024


class LogWriter:
    """Takes what a container writes to its stdout and stderr pipes and appends it, line by line, to one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._partial = {"stdout": b"", "stderr": b""}
        self._open: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()

    def pipe(self, stream: str) -> int:
        """A fresh pipe's write end for the container; the caller closes it after the start."""
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        self._open[stream] = read_end
        self._loop.add_reader(read_end, self._on_readable, stream)
        return write_end

    def _on_readable(self, stream: str) -> None:
        try:
            data = os.read(self._open[stream], 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._take(stream, data)
        else:
            self._shut(stream)

    def _take(self, stream: str, data: bytes) -> None:
        *lines, rest = (self._partial[stream] + data).split(b"\n")
        stamp = now_micro().encode()
        written = b"".join(b"%s %s F %s\n" % (stamp, stream.encode(), line) for line in lines)
        if len(rest) > _LONGEST_LINE:
            written += b"%s %s P %s\n" % (stamp, stream.encode(), rest)
            rest = b""
        self._partial[stream] = rest
        if written:
            os.write(self._file, written)

    def _shut(self, stream: str) -> None:
        descriptor = self._open.pop(stream, None)
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        if self._partial[stream]:
            line, self._partial[stream] = self._partial[stream], b""
            os.write(self._file, b"%s %s P %s\n" % (now_micro().encode(), stream.encode(), line))

    def finish(self) -> None:
        """The container has ended: take what is still in the pipes and close."""
        for stream in list(self._open):
            while stream in self._open:
                try:
                    data = os.read(self._open[stream], 1 << 16)
                except BlockingIOError:
                    data = b""
                if not data:
                    self._shut(stream)
                else:
                    self._take(stream, data)
        os.close(self._file)


def _text(line: bytes) -> tuple[bytes, bytes]:
    stamp, _, tag, text = line.split(b" ", 3)
    return stamp, text.rstrip(b"\n") + (b"\n" if tag == b"F" else b"")


def last_output(path: Path, limit: int) -> bytes:
    """The end of what a container wrote, without time stamps."""
    try:
        lines = path.read_bytes()[-limit * 4 :].splitlines(keepends=True)
    except FileNotFoundError:
        return b""
    return b"".join(_text(line)[1] for line in lines if line.count(b" ") >= 3)[-limit:]


def _since(options: LogOptions) -> bytes:
    if options.since_time:
        return datetime.fromisoformat(options.since_time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
    if options.since_seconds is not None:
        moment = datetime.now(UTC) - timedelta(seconds=options.since_seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
    return b""


def _select(data: bytes, options: LogOptions) -> list[bytes]:
    since = _since(options)
    chosen = []
    for line in data.splitlines(keepends=True):
        stamp, text = _text(line)
        if stamp >= since:
            chosen.append(stamp + b" " + text if options.timestamps else text)
    return chosen


async def read_log(path: Path, options: LogOptions, running: asyncio.Event | None) -> AsyncIterator[bytes]:
    """The log in pieces; with `follow`, until the event `running` names (the container's end) and the file's end."""
    left = options.limit_bytes
    offset = 0
    first = True
    while True:
        ended = running is None or running.is_set()
        data, offset = _complete_lines(path, offset)
        lines = _select(data, options)
        if first and options.tail_lines is not None:
            lines = lines[-options.tail_lines :] if options.tail_lines > 0 else []
        first = False
        piece = b"".join(lines)
        if left is not None:
            piece, left = piece[:left], left - len(piece[:left])
        if piece:
            yield piece
        if left == 0 or not options.follow or (ended and not data):
            return
        if not data:
            await asyncio.sleep(_POLL_S)


def _complete_lines(path: Path, offset: int) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return b"", offset
    end = data.rfind(b"\n") + 1
    return data[:end], offset + end
