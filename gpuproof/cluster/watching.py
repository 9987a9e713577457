"""A watch that goes on: resumes after an end, re-lists after 410, backs off from a server that answers with nothing.

It must not know HTTP, a client library or what the objects are.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from gpuproof.cluster import raw
from gpuproof.cluster.backoff import Backoff, Outage, Patience
from gpuproof.cluster.port import ClusterError, Listing, WatchEvent
from gpuproof.failure import Reason

_HASTY_S = 1.0
"""A stream that ends sooner, without one event, is no progress (a server may answer 200 and nothing at once)."""

_MAX_LINE_BYTES = 16 << 20


class Stream(Protocol):
    """One open watch response."""

    def chunks(self) -> Iterator[bytes]:
        """Bytes as they arrive; ends when the server ends; raises `ClusterError` when the connection breaks."""
        ...

    def interrupt(self) -> None:
        """End it from any thread, also while another one waits in `chunks`."""
        ...

    def close(self) -> None:
        """Give it up; called by the thread that reads."""
        ...


class ResumingWatch:
    """Implements `port.Watch` over two calls: `open_stream(resource_version)` and `list_now()`."""

    def __init__(
        self,
        open_stream: Callable[[str], Stream],
        list_now: Callable[[], Listing],
        *,
        patience: Patience,
        resource_version: str = "",
        known: Iterable[tuple[str, str]] = (),
        outage: Outage | None = None,
    ) -> None:
        self._open_stream = open_stream
        self._list_now = list_now
        self._version = resource_version
        self._known = set(known)
        self._closed = threading.Event()
        self._backoff = Backoff(patience, self._closed, outage=outage)
        self._stream: Stream | None = None
        self._lock = threading.Lock()
        self._relist = False
        self._hasty = 0

    @property
    def live(self) -> bool:
        """Whether a stream stands open; False until the first one does, and while it is opened anew or waits to be."""
        with self._lock:
            return self._stream is not None

    def close(self) -> None:
        """End the iteration; safe from any thread and more than once."""
        self._closed.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.interrupt()

    def __iter__(self) -> Iterator[WatchEvent]:
        while not self._closed.is_set():
            if self._relist:
                yield from self._relisted()
            try:
                yield from self._one_stream()
            except ClusterError as error:
                if self._closed.is_set():
                    return
                if error.status == 410:
                    self._relist = True
                elif error.reason is not Reason.CLUSTER_UNREACHABLE:
                    raise
                if not self._backoff.wait(error.retry_after_s, answered=error.answered) and not self._closed.is_set():
                    raise

    def _one_stream(self) -> Iterator[WatchEvent]:
        stream = self._open_stream(self._version)
        opened, seen = time.monotonic(), 0
        with self._lock:
            self._stream = stream
        try:
            if self._closed.is_set():
                return
            for line in _lines(stream.chunks()):
                event = self._read(line)
                self._backoff.success()
                seen += 1
                if event is not None:
                    yield event
        finally:
            with self._lock:
                self._stream = None
            stream.close()
            if time.monotonic() - opened >= _HASTY_S:
                # It stood: nothing to tell is no failure, however often a quiet stream is opened anew.
                self._backoff.success()
        self._ended(seen, time.monotonic() - opened)

    def _ended(self, seen: int, lasted_s: float) -> None:
        if seen or lasted_s >= _HASTY_S:
            self._hasty = 0
            return
        # An old version may be answered for ever with an empty 200: after the second time only a list tells the truth.
        self._hasty += 1
        self._relist = self._hasty >= 2
        raise ClusterError(Reason.CLUSTER_UNREACHABLE, "the watch ends at once, again and again, without an event", 200)

    def _read(self, line: bytes) -> WatchEvent | None:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"a line of the watch is not JSON: {error}") from error
        kind, obj = raw.text(entry, "type"), raw.mapping(entry, "object")
        if kind == "ERROR":
            message = raw.text(obj, "message") or "no message"
            # Whatever the server complains about, what was missed meanwhile is only known after a list.
            self._relist = True
            raise ClusterError(
                Reason.CLUSTER_UNREACHABLE, f"the watch reports an error: {message}", raw.whole(obj, "code")
            )
        version = raw.text(obj, "metadata", "resourceVersion")
        if version:
            self._version = version
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return None
        key = _key(obj)
        if kind == "DELETED":
            self._known.discard(key)
        else:
            self._known.add(key)
        return WatchEvent(kind, obj)

    def _relisted(self) -> Iterator[WatchEvent]:
        listing = self._list_now()
        self._relist = False
        self._version = listing.resource_version
        present = {_key(item) for item in listing.items}
        gone = self._known - present
        self._known = present
        for namespace, name in sorted(gone):
            yield WatchEvent("DELETED", {"metadata": {"namespace": namespace, "name": name}})
        for item in listing.items:
            yield WatchEvent("MODIFIED", item)


def _key(obj: raw.Raw) -> tuple[str, str]:
    return raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise ClusterError(
                Reason.CLUSTER_UNREACHABLE, f"a line of the watch is longer than {_MAX_LINE_BYTES} bytes"
            )
        yield from (line for line in whole if line.strip())
    # A last line without its end was cut on the way: the next stream starts before it.
