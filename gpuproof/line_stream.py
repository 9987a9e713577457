"""Follows the numbered lines of one container's log: each value once and in order, over broken connections.

A gap, a damaged line, a log that begins anew or a container that ends before its stream does is an error and never a
shorter answer. It must not know what the values mean.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.backoff import Backoff, Patience
from gpuproof.cluster.port import PODS, Cluster, ClusterError, LogStream
from gpuproof.failure import Reason
from workloads.line_stream import END, DamagedLine, Line, load, parse_line

_LOST_LOG = "unable to retrieve container logs for "
_MAX_VALUE_BYTES = 16 << 20
_MAX_TEXT_BYTES = 1 << 16
_HASTY_S = 1.0
"""A connection that ends sooner, without a new line, is no progress."""

_REMEMBERED = 1000
"""So many last lines are compared with what comes again after a broken connection."""


class LineStreamError(Exception):
    """The stream cannot be trusted or has ended early; `reason` and `message` as in a `JobFailure`."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class LineStream:
    """Iterate for the values; the end of the iteration is the end that the pod itself announced (or `close`).

    With a `uid`, a later pod of the same name is another one: this one is gone then, and nothing of that is read.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        pod: str,
        container: str,
        *,
        uid: str = "",
        patience: Patience | None = None,
    ) -> None:
        self._cluster, self._uid = cluster, uid
        self._namespace, self._pod, self._container = namespace, pod, container
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._stream: LogStream | None = None
        self._backoff = Backoff(patience or Patience(), self._closed)
        self._number = 0
        self._pieces: list[str] = []
        self._since = ""
        self._said: dict[int, str] = {}
        self._last_words = ""
        self.ended = False
        """Whether the pod has said that nothing follows."""

    @property
    def name(self) -> str:
        """Whose lines these are, for a person."""
        return f"{self._pod}/{self._container}"

    def close(self) -> None:
        """End the iteration; safe from any thread and more than once."""
        self._closed.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.interrupt()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Values as they arrive. Raises `LineStreamError`, also when the cluster stays silent beyond all patience."""
        while not (self._closed.is_set() or self.ended):
            terminated = False
            try:
                # Asked before the log is read: what is written after the answer is read all the same.
                terminated = self._terminated() if self._backoff.failures else False
                yield from self._one_connection()
            except ClusterError as error:
                if self._closed.is_set():
                    return
                self._give_up_on(error)
                if not self._backoff.wait(error.retry_after_s, answered=error.answered) and not self._closed.is_set():
                    raise LineStreamError(
                        error.reason, f"the log of {self.name} cannot be followed: {error.message}"
                    ) from error
            else:
                self._pause(terminated=terminated)

    def _pause(self, *, terminated: bool) -> None:
        """The server ended the log: the container has ended, the log was rotated, or an hour is over."""
        if self.ended or self._closed.is_set():
            return
        if terminated:
            said = f"{self.name} has ended after line {self._number} without ending its stream: {self._last_words}"
            raise LineStreamError(Reason.NONZERO_EXIT, f"{said}; read the container's log")
        if not self._backoff.wait() and not self._closed.is_set():
            raise LineStreamError(
                Reason.CLUSTER_UNREACHABLE,
                f"the log of {self.name} ends again and again without a line, though the container runs; "
                "look at its node's kubelet",
            )

    def _give_up_on(self, error: ClusterError) -> None:
        if error.status == 404:
            raise LineStreamError(Reason.POD_DELETED, f"{self._pod} is gone, after line {self._number}") from error
        if error.reason is Reason.FORBIDDEN:
            said = f"the log of {self.name} may not be read: {error.message}; grant `get` on pods/log"
            raise LineStreamError(Reason.FORBIDDEN, said) from error

    def _terminated(self) -> bool:
        """Whether the container has ended for good; keeps what its status says."""
        pod = self._look()
        statuses = raw.objects(pod, "status", "containerStatuses")
        status = next((one for one in statuses if raw.text(one, "name") == self._container), {})
        state = raw.mapping(status, "state", "terminated")
        reason = raw.text(state, "reason") or raw.text(pod, "status", "reason") or raw.text(pod, "status", "phase")
        self._last_words = f"{reason} with exit code {raw.text(state, 'exitCode') or '?'}"
        return bool(state) or raw.text(pod, "status", "phase") in ("Failed", "Succeeded")

    def _look(self) -> raw.Raw:
        """The pod; `LineStreamError` where another one has its name."""
        pod = self._cluster.get(PODS, self._pod, namespace=self._namespace)
        if self._uid and raw.text(pod, "metadata", "uid") != self._uid:
            said = f"{self._pod} is gone, after line {self._number}, and another pod has its name"
            raise LineStreamError(Reason.POD_DELETED, said)
        return pod

    def _one_connection(self) -> Iterator[dict[str, Any]]:
        stream = self._cluster.follow_log(self._namespace, self._pod, self._container, since=self._since)
        opened = time.monotonic()
        with self._lock:
            self._stream = stream
        try:
            if self._closed.is_set():
                return
            rest = b""
            for chunk in stream.chunks():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    value = self._read(line.decode("utf-8", "replace"))
                    if value is None:
                        continue
                    self._backoff.success()
                    if value == {END: True}:
                        self.ended = True
                        return
                    yield value
                if len(rest) > _MAX_TEXT_BYTES:
                    rest = rest[-_MAX_TEXT_BYTES:]  # somebody's endless line: ours begin and end within far less
            # A last line without its end was cut on the way: the next connection starts before it.
        finally:
            with self._lock:
                self._stream = None
            stream.close()
            if time.monotonic() - opened >= _HASTY_S:
                self._backoff.success()  # it stood: a pod may have nothing to say for long

    def _read(self, text: str) -> dict[str, Any] | None:
        if text.startswith(_LOST_LOG):
            raise LineStreamError(Reason.TRUNCATED_MEASUREMENT, f"the log of {self.name} is lost: {text[:200]}")
        stamp, _, said = text.partition(" ")
        try:
            line = parse_line(said)
        except DamagedLine as error:
            raise self._untrusted(Reason.MALFORMED_MEASUREMENT, str(error)) from error
        if line is None or self._known(line):
            return None
        if line.number != self._number + 1:
            lost = f"line {line.number} follows line {self._number}: what was between is lost (a rotated log?)"
            raise self._untrusted(Reason.TRUNCATED_MEASUREMENT, lost)
        # The API server tells the kubelet whole seconds: lines of the last second come twice and are known by number.
        self._number, self._since = line.number, stamp
        self._said[line.number] = line.piece
        self._said.pop(line.number - _REMEMBERED, None)
        self._pieces.append(line.piece)
        if sum(map(len, self._pieces)) > _MAX_VALUE_BYTES:
            raise self._untrusted(Reason.MALFORMED_MEASUREMENT, f"a value is longer than {_MAX_VALUE_BYTES} bytes")
        if line.more:
            return None
        pieces, self._pieces = "".join(self._pieces), []
        try:
            return load(pieces)
        except DamagedLine as error:
            raise self._untrusted(Reason.MALFORMED_MEASUREMENT, str(error)) from error

    def _known(self, line: Line) -> bool:
        """Whether it came before; a number that says something else now is a stream that began anew."""
        if line.number > self._number:
            return False
        if self._said.get(line.number, line.piece) != line.piece:
            said = f"line {line.number} says something else than before: the container was started again"
            raise self._untrusted(Reason.MALFORMED_MEASUREMENT, said)
        return True

    def _untrusted(self, reason: Reason, what: str) -> LineStreamError:
        if self._uid:
            self._look()
        return LineStreamError(reason, f"the lines of {self.name} cannot be trusted: {what}")
