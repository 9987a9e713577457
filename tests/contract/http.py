"""Raw HTTP to a Kubernetes API server, with the credentials of a kubeconfig: no model, no retry, no opinion.

Owns connections, requests and watch streams. It must not know any kind of object.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from kubernetes import client, config

Json = Any
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Access:
    """Where the API is and what a client shows to it; `token` empty and no certificate means anonymous."""

    server: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    authorization: str = ""
    verify: bool = True
    pool: urllib3.PoolManager = field(default_factory=urllib3.PoolManager, compare=False)

    def ssl_context(self) -> ssl.SSLContext:
        """A context that trusts the cluster's CA and shows the client certificate, if there is one."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def access_of(kubeconfig: Path) -> Access:
    """The current context of a kubeconfig, read by the official client (so exec plugins work too)."""
    settings = client.Configuration()
    load: Any = config.load_kube_config
    load(config_file=str(kubeconfig), client_configuration=settings)
    bearer = str(settings.auth_settings().get("BearerToken", {}).get("value") or "")
    return Access(
        server=settings.host.rstrip("/"),
        ca_file=settings.ssl_ca_cert,
        cert_file=settings.cert_file,
        key_file=settings.key_file,
        authorization=bearer,
        verify=bool(settings.verify_ssl),
        pool=urllib3.PoolManager(
            maxsize=64,
            ca_certs=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            cert_reqs="CERT_REQUIRED" if settings.verify_ssl else "CERT_NONE",
        ),
    )


def anonymous(access: Access) -> Access:
    """The same server without any credentials."""
    pool = urllib3.PoolManager(maxsize=8, ca_certs=access.ca_file, cert_reqs="CERT_REQUIRED")
    return Access(access.server, access.ca_file, verify=access.verify, pool=pool)


def bearing(access: Access, token: str) -> Access:
    """The same server with another bearer token instead of the own credentials."""
    bare = anonymous(access)
    return Access(bare.server, bare.ca_file, authorization=f"Bearer {token}", verify=bare.verify, pool=bare.pool)


class Http:
    """Requests with one access's credentials. Thread-safe."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Answer:
        """One request; `body` may be bytes (sent as they are) or anything JSON can carry."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        response = self.access.pool.request(
            method,
            self._url(path, query),
            body=data,
            headers=self._headers(accept, content_type if data is not None else None, headers),
            timeout=timeout_s,
            retries=False,
            redirect=False,
        )
        return Answer(response.status, dict(response.headers), response.data)

    def stream(
        self, path: str, query: Mapping[str, Any] | None = None, *, timeout_s: float = _TIMEOUT_S, accept: str = "*/*"
    ) -> Stream:
        """A GET whose body is read while it comes."""
        response = self.access.pool.request(
            "GET",
            self._url(path, query),
            headers=self._headers(accept, None, None),
            timeout=urllib3.Timeout(connect=10, read=timeout_s),
            retries=False,
            preload_content=False,
        )
        return Stream(response)

    def _url(self, path: str, query: Mapping[str, Any] | None) -> str:
        if not query:
            return self.access.server + path
        return f"{self.access.server}{path}{'&' if '?' in path else '?'}{urlencode(query, doseq=True)}"

    def _headers(self, accept: str, content_type: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
        found = {"Accept": accept, "User-Agent": "contract"}
        if content_type:
            found["Content-Type"] = content_type
        if self.access.authorization:
            found["Authorization"] = self.access.authorization
        return {**found, **(more or {})}

    def raw(self, data: bytes, timeout_s: float = 10.0) -> bytes:
        """Bytes as they are to the server's port (over TLS where it speaks TLS); what came back until it closed."""
        where = urlsplit(self.access.server)
        address = (where.hostname or "", where.port or 443)
        with socket.create_connection(address, timeout=timeout_s) as plain:
            secure = self.access.ssl_context().wrap_socket(plain, server_hostname=where.hostname)
            with secure:
                secure.sendall(data)
                return _read_all(secure)


def _read_all(connection: ssl.SSLSocket) -> bytes:
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except (TimeoutError, ssl.SSLError, ConnectionError):
        pass  # the server may cut a hostile client off; what came before counts
    return found


class Stream:
    """An open answer."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.code = response.status
        self.headers = dict(response.headers)

    def lines(self) -> Iterator[bytes]:
        """Lines without their end, until the server ends the stream; a read timeout raises urllib3's error."""
        rest = b""
        for chunk in self._response.stream(65536):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        if rest:
            yield rest

    def events(self) -> Iterator[Json]:
        """Watch events as JSON."""
        for line in self.lines():
            if line.strip():
                yield json.loads(line)

    def chunks(self) -> Iterator[bytes]:
        """Bytes as they come."""
        yield from self._response.stream(65536)

    def close(self) -> None:
        """Cut the connection."""
        cut = getattr(self._response, "shutdown", None)
        if cut is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # it may have ended already
                cut()
        self._response.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Recorder:
    """Collects a watch's events in a thread of its own until it is closed."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events: list[Json] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for event in self._stream.events():
                self._events.append(event)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            pass  # closed by us, or cut: what came before counts
        finally:
            self._ended.set()

    @property
    def events(self) -> list[Json]:
        """What came so far."""
        return list(self._events)

    @property
    def ended(self) -> bool:
        """The stream is over."""
        return self._ended.is_set()

    def close(self) -> None:
        """Stop watching."""
        self._stream.close()
        self._thread.join(5.0)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
