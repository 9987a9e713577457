"""Connections whose answer must begin within a total time, however slowly a server sends its first lines.

A socket's own timeout starts anew with each byte. It must not know what is asked or what an answer means.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


class _Begins:
    """Mixed into a connection: the wait for the status line and the headers ends after `timeout` seconds in all."""

    def getresponse(self) -> Any:
        """The response once its headers are read; breaks the connection when they take too long."""
        connection: Any = self
        limit_s = connection.timeout
        if not isinstance(limit_s, int | float):
            return super().getresponse()  # type: ignore[misc]
        alarm = threading.Timer(limit_s, _shut, (connection.sock,))
        alarm.daemon = True
        alarm.start()
        try:
            return super().getresponse()  # type: ignore[misc]
        finally:
            alarm.cancel()


class PlainConnection(_Begins, HTTPConnection):
    pass


class SecureConnection(_Begins, HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = PlainConnection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = SecureConnection


def bound(manager: urllib3.PoolManager) -> None:
    """Make every connection that this manager opens from now on one whose answers begin in time."""
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}


def _shut(sock: socket.socket | None) -> None:
    if sock is not None:
        with contextlib.suppress(OSError, ValueError):
            sock.shutdown(socket.SHUT_RDWR)
