"""One HTTP answer of an API server: its body within a deadline, its stream until closed, its errors in our words.

It must not know which request it answers or whether it is tried again.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping

import urllib3

from gpuproof.cluster import raw
from gpuproof.cluster.backoff import retry_after_s
from gpuproof.cluster.port import ClusterError
from gpuproof.failure import Reason

_CHUNK_BYTES = 1 << 16
_BROKEN = (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError)
"""What reading raises when the connection breaks; the last two when another thread closes it under the reader."""


class Answer:
    """A response whose body is not read yet. Read it once: `body` or `chunks`."""

    def __init__(self, response: urllib3.BaseHTTPResponse, generation: int, count: Callable[[int], None]) -> None:
        self._response = response
        self._count = count
        self._closing = threading.Lock()
        self._done = False
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        self.generation = generation

    def body(self, deadline_s: float, max_bytes: int | None = None) -> bytes:
        """All of it; `ClusterError` when it breaks off, or goes on beyond `deadline_s` or `max_bytes`."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._shut_down()

        # A read's own timeout starts anew with each byte, so a trickle would never end.
        alarm = threading.Timer(max(deadline_s, 0.0), end)
        alarm.daemon = True
        alarm.start()
        content = bytearray()
        try:
            for chunk in self._response.stream(_CHUNK_BYTES):
                self._count(len(chunk))
                content += chunk
                if max_bytes is not None and len(content) > max_bytes:
                    self.close()
                    raise ClusterError(Reason.HARNESS_ERROR, f"the answer is longer than {max_bytes} bytes")
        except _BROKEN as error:
            self.close()
            said = "takes too long" if late.is_set() else f"broke off: {error}"
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"the answer {said}") from error
        finally:
            alarm.cancel()
        if late.is_set():
            self.close()
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, "the answer takes too long")
        self._response.release_conn()
        return bytes(content)

    def chunks(self) -> Iterator[bytes]:
        """What arrives, as it arrives, until the server ends it or `interrupt` is called."""
        try:
            for chunk in self._response.stream(_CHUNK_BYTES):
                self._count(len(chunk))
                yield chunk
        except _BROKEN as error:
            if not self._done:
                raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"the stream broke off: {error}") from error
        finally:
            self.close()

    def interrupt(self) -> None:
        """End a reader that waits, from any thread: the socket is shut down, the reader then closes it."""
        with self._closing:
            if self._done:
                return
            self._done = True
            self._shut_down()

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._response.shutdown()

    def close(self) -> None:
        """Give the connection up; only for the thread that reads."""
        with self._closing:
            self._done = True
            with contextlib.suppress(*_BROKEN):
                self._response.close()


def error_of(answer: Answer, content: bytes, what: str) -> ClusterError:
    """An error answer as `ClusterError`: the server's own sentence, and which of our reasons it is."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = {}
    said = raw.text(body, "message") or content[:300].decode("utf-8", "replace").strip() or "no text"
    message = f"{what}: HTTP {answer.status}: {said[:1000]}"
    return ClusterError(_reason(answer.status, said), message, answer.status, retry_after_s(answer.headers))


def _reason(status: int, said: str) -> Reason:
    if status == 403 and "exceeded quota" in said:
        return Reason.QUOTA_EXCEEDED
    if status in (401, 403):
        return Reason.FORBIDDEN
    if status == 429 or status >= 500:
        return Reason.CLUSTER_UNREACHABLE
    return Reason.HARNESS_ERROR
