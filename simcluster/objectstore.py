"""An HTTP object store for datasets, inside the cluster's network: buckets, keys, range requests.

Owns the objects and their HTTP. It must not know the cluster. Objects under `synthetic/` are made up as they are read:
`synthetic/SEED/BYTES` holds that many bytes, the same at every read, and takes no memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from aiohttp import web

_BLOCK = 1 << 18
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._=-]*$")
_SYNTHETIC = re.compile(r"^synthetic/([A-Za-z0-9-]{1,64})/(\d{1,15})$")
_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")


@dataclass(frozen=True)
class Trouble:
    """How synthetic objects are served wrongly to one node, or to everybody (`EVERYBODY`).

    `status` refuses; `drop_after_bytes` ends the connection there; both strike the first `times` requests for an object
    (0: each). `length_change` serves an object that is so many bytes longer, or shorter, than it should be, its length
    said accordingly. `flip` damages one bit in the middle.
    """

    status: int = 0
    drop_after_bytes: int = 0
    times: int = 0
    length_change: int = 0
    flip: bool = False


EVERYBODY = "*"
HARMLESS = Trouble()
NodeOf = Callable[[str | None], Awaitable[str]]
"""The node whose pod has this address; '' where no pod has it."""


class _Upload:
    """A file that takes its place when all of it has come: readers see the old object or the new one, never a part."""

    def __init__(self, directory: Path, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=".put-")
        self.file = os.fdopen(descriptor, "wb")
        self._name = Path(name)
        self._place = place

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.file.close()
        if error is None:
            self._name.replace(self._place)
        else:
            self._name.unlink(missing_ok=True)


class ObjectStore:
    """Serves the objects under a directory: GET, HEAD, PUT, DELETE /BUCKET/KEY, and GET /BUCKET/ for a listing."""

    def __init__(self, directory: Path, node_of: NodeOf | None = None) -> None:
        self._directory = directory
        self._runner: web.AppRunner | None = None
        self._node_of = node_of
        self._troubles: dict[str, Trouble] = {}
        self._struck: Counter[tuple[str, str]] = Counter()

    def trouble(self, node: str, trouble: Trouble) -> None:
        """Serve synthetic objects so to the pods of a node, or to everybody."""
        self._troubles[node] = trouble

    async def _trouble_of(self, request: web.Request) -> Trouble:
        if not self._troubles:
            return HARMLESS
        node = EVERYBODY if self._node_of is None else await self._node_of(request.remote)
        found = self._troubles.get(node) or self._troubles.get(EVERYBODY) or HARMLESS
        if found.times:
            self._struck[node, request.path] += 1
            return found if self._struck[node, request.path] <= found.times else HARMLESS
        return found

    async def start(self, sock: socket.socket) -> None:
        """Serve on a listening socket."""
        self._directory.mkdir(parents=True, exist_ok=True)
        application = web.Application(client_max_size=1 << 40)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        made_up = _SYNTHETIC.match(path)
        if made_up is not None:
            return await _synthetic(request, made_up[1], int(made_up[2]), await self._trouble_of(request))
        if request.method == "GET" and (path.endswith("/") or not path):
            return self._listing(path.rstrip("/"))
        place = self._place(path)
        if request.method == "PUT":
            return await self._put(request, place)
        if request.method == "DELETE":
            place.unlink(missing_ok=True)
            return web.Response(status=204)
        if request.method not in ("GET", "HEAD"):
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD", "PUT", "DELETE"))
        if not place.is_file():
            raise web.HTTPNotFound(text=f"no object {path}\n")
        # aiohttp answers ranges, conditions and HEAD of a file by itself.
        return web.FileResponse(place, chunk_size=_BLOCK, headers={"Content-Type": "application/octet-stream"})

    def _place(self, path: str) -> Path:
        """The file of a key; only plain names, so that no key leads out of the directory."""
        parts = path.split("/")
        if len(parts) < 2 or not all(_NAME.match(part) for part in parts):
            raise web.HTTPBadRequest(text="expected /BUCKET/KEY of letters, digits, dots, dashes and underscores\n")
        return self._directory.joinpath(*parts)

    async def _put(self, request: web.Request, place: Path) -> web.Response:
        digest = hashlib.sha256()
        try:
            with _Upload(self._directory, place) as upload:
                async for chunk in request.content.iter_chunked(_BLOCK):
                    digest.update(chunk)
                    upload.file.write(chunk)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise web.HTTPConflict(text=f"a key cannot also be a prefix of another: {error.strerror}\n") from error
        except OSError as error:
            raise web.HTTPInsufficientStorage(text=f"{error.strerror}\n") from error
        return web.Response(status=200, headers={"ETag": f'"{digest.hexdigest()}"'})

    def _listing(self, bucket: str) -> web.Response:
        parts = [part for part in bucket.split("/") if part]
        if not all(_NAME.match(part) for part in parts):
            raise web.HTTPBadRequest(text="not a bucket's name\n")
        root = self._directory.joinpath(*parts)
        if not root.is_dir():
            raise web.HTTPNotFound(text=f"no bucket {bucket}\n")
        found = sorted(place for place in root.rglob("*") if place.is_file() and not place.name.startswith("."))
        objects = [{"key": str(place.relative_to(root)), "bytes": place.stat().st_size} for place in found]
        return web.Response(text=json.dumps({"objects": objects}), content_type="application/json")


async def _synthetic(request: web.Request, seed: str, size: int, trouble: Trouble) -> web.StreamResponse:
    if request.method not in ("GET", "HEAD"):
        raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD"))
    if trouble.status:
        return web.Response(status=trouble.status, text="refused\n")
    damaged = size // 2 if trouble.flip else -1
    size = max(0, size + trouble.length_change)
    headers = {"Accept-Ranges": "bytes", "ETag": f'"{seed}-{size}"', "Content-Type": "application/octet-stream"}
    first, last, status = 0, size - 1, 200
    asked = request.headers.get("Range")
    if asked is not None and request.headers.get("If-Range", headers["ETag"]) == headers["ETag"]:
        first, last = _requested(asked, size)
        status = 206
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(last - first + 1)})
    await response.prepare(request)
    if request.method == "GET":
        sent = first
        async for piece in _pieces(seed, first, last + 1):
            await response.write(_damaged(piece, damaged - sent))
            sent += len(piece)
            if trouble.drop_after_bytes and sent - first >= trouble.drop_after_bytes and request.transport is not None:
                request.transport.close()
                return response
    await response.write_eof()
    return response


def _damaged(piece: bytes, at: int) -> bytes:
    """The bytes with one bit flipped, where the place lies within them."""
    return piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :] if 0 <= at < len(piece) else piece


def _requested(asked: str, size: int) -> tuple[int, int]:
    """First and last byte of a single range; 416 where it cannot be satisfied."""
    match = _RANGE.match(asked)
    unsatisfiable = web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    if match is None or not (match[1] or match[2]):
        raise unsatisfiable
    if not match[1]:
        first, last = max(0, size - int(match[2])), size - 1
    else:
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
    if first > last:
        raise unsatisfiable
    return first, last


async def _pieces(seed: str, first: int, end: int) -> AsyncIterator[bytes]:
    position = first
    while position < end:
        number, inside = divmod(position, _BLOCK)
        # A millisecond of hashing a block: off the loop, which carries the whole cluster.
        data = await asyncio.to_thread(block, seed, number)
        piece = data[inside : min(_BLOCK, inside + end - position)]
        yield piece
        position += len(piece)


def block(seed: str, number: int) -> bytes:
    """Block `number` (256 KiB each) of the synthetic objects of a seed."""
    return hashlib.shake_128(f"{seed}/{number}".encode()).digest(_BLOCK)
