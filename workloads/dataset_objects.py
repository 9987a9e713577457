"""Fetches the objects of a dataset: whole, verified and published at once, or not at all; goes on where it stopped.

An object is written beside its place, checked against the size and sha256 of the manifest, made durable and renamed
into place, so that no reader sees a part of it. What a source answers by the way decides: a refusal ends it, a fault
that may pass is tried again. Must not know who asks, and never prints a URL: it may be a credential.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import http.client
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

DATASET = os.environ.get("GPUPROOF_DATASET", "/gpuproof/dataset")
BLOCK = 1 << 20
_BUFFERS = 4
_WRITE_BACK = 8 << 20
"""After so many bytes the kernel is asked to begin writing them out, so that little is left to wait for at the end."""
_FIRST_PAUSE_S = 0.1
_MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504})

Fill = Callable[[bytearray], int]


class Refused(Exception):
    """The source will not give the object, however often it is asked."""


class Wrong(Exception):
    """The object came and is not the one of the manifest, or could not be kept."""


class _Again(Exception):
    """A fault that may pass."""


class _FromTheStart(_Again):
    """What has come so far is of no use."""


@dataclass
class Fetched:
    """How one object came: seconds in all, to the first byte and spent moving it, and how many attempts failed before.

    Seconds spent moving leave out pauses, and attempts to which no byte came.
    """

    bytes: int
    seconds: float
    first_byte_s: float
    retries: int
    moving_s: float = 0.0


class Digest:
    """The sha256 of what passes through a ring of buffers, computed beside the copying: it must not cost its rate.

    The buffers are used again and again: memory that is new for each block costs more than the copy itself.
    """

    def __init__(self, size: int) -> None:
        self._digest = hashlib.sha256()
        self._bytes = max(1, min(size, BLOCK))
        self._made = 0
        self._full: "queue.Queue[Optional[Tuple[bytearray, memoryview]]]" = queue.Queue()
        self._free: "queue.Queue[bytearray]" = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        for buffer, block in iter(self._full.get, None):
            self._digest.update(block)
            self._free.put(buffer)

    def buffer(self) -> bytearray:
        """The next buffer to fill, of at most `BLOCK` bytes; waits where hashing is far behind."""
        if self._free.empty() and self._made < _BUFFERS:
            self._made += 1
            return bytearray(self._bytes)
        return self._free.get()

    def update(self, buffer: bytearray, block: memoryview) -> None:
        """Take the filled part of a buffer; it must not change before `buffer` gives it out again."""
        self._full.put((buffer, block))

    def hexdigest(self) -> str:
        """Of all that was taken; ends the computation."""
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """End the computation."""
        if self._thread.is_alive():
            self._full.put(None)
            self._thread.join()


def read_manifest() -> List[Dict[str, Any]]:
    """The objects as the harness handed them out (`gpuproof/dataset.py`); OSError or ValueError where it did not."""
    with gzip.open(os.path.join(DATASET, "objects.json.gz"), "rt", encoding="utf-8") as file:
        listed = json.load(file)
    if not isinstance(listed, list) or not listed:
        raise ValueError("the manifest names no object")
    return listed


def generated(seed: str, size: int) -> Iterator[bytes]:
    """Made-up bytes, the same for the same seed, block by block."""
    for number in range((size + BLOCK - 1) // BLOCK):
        data = hashlib.shake_128(("%s/%d" % (seed, number)).encode()).digest(BLOCK)
        yield data[: size - number * BLOCK]


def fetch(item: Mapping[str, Any], place: str, claims: str, attempts: int, timeout_s: float) -> Fetched:
    """Bring one object to `place`; raises `Refused` or `Wrong`, whose words name the object and never its URL."""
    began = time.monotonic()
    found = Fetched(int(item["bytes"]), 0.0, 0.0, 0)
    part = place + ".part"
    os.makedirs(os.path.dirname(place), exist_ok=True)
    last = ""
    for attempt in range(attempts):
        if attempt:
            found.retries += 1
            time.sleep(_FIRST_PAUSE_S * 2**attempt)
        tried = time.monotonic()
        try:
            try:
                _complete(item, part, claims, timeout_s, began, found)
                _publish(part, place)
            finally:
                found.moving_s += time.monotonic() - tried if found.first_byte_s else 0.0
        except _Again as error:
            last = str(error)
            if isinstance(error, _FromTheStart):
                _remove(part)
            continue
        except (Refused, Wrong) as error:
            _remove(part)
            raise type(error)("%s: %s" % (item["name"], error)) from None
        except OSError as error:
            _remove(part)
            code = errno.errorcode.get(error.errno or 0, "error")
            raise Wrong(
                "%s: %s, nothing published: %s" % (item["name"], code, os.strerror(error.errno or 0))
            ) from error
        found.seconds = time.monotonic() - began
        return found
    if last.startswith("wrong"):
        _remove(part)
        raise Wrong("%s: %s" % (item["name"], last))
    raise Refused("%s: %s, %d times" % (item["name"], last, attempts))


def _complete(item: Mapping[str, Any], part: str, claims: str, timeout_s: float, began: float, found: Fetched) -> None:
    """Make `part` the whole object, from where an earlier attempt left it."""
    have = os.path.getsize(part) if os.path.exists(part) else 0
    wanted = int(item["bytes"])
    with contextlib.closing(Digest(wanted)) as digest, open(part, "r+b" if have else "wb", buffering=0) as out:
        if have:
            have = _take_over(out, digest, min(have, wanted))
        if have < wanted:
            with _source(item, have, claims, timeout_s) as fill:
                _copy(fill, out, digest, have, began, found)
        size = out.tell()
        os.fsync(out.fileno())
        found_sha256 = digest.hexdigest()
    if size < wanted:
        # What has come stays: the next attempt goes on behind it.
        raise _Again("the source ended after %d of %d bytes" % (size, wanted))
    if size > wanted:
        raise _FromTheStart("wrong length: %d bytes came, the manifest says %d" % (size, wanted))
    if found_sha256 != item["sha256"]:
        raise _FromTheStart("wrong content: its sha256 is not the manifest's")


def _copy(fill: Fill, out: Any, digest: Digest, have: int, began: float, found: Fetched) -> None:
    """All that the source gives, behind the `have` bytes that are there."""
    asked = have
    while True:
        buffer = digest.buffer()
        block = memoryview(buffer)[: fill(buffer)]
        if not block:
            return
        if not found.first_byte_s:
            found.first_byte_s = time.monotonic() - began
        digest.update(buffer, block)
        have += len(block)
        while block:
            block = block[out.write(block) :]
        if have - asked >= _WRITE_BACK:
            # Linux begins to write these pages out and keeps those that it is still writing.
            os.posix_fadvise(out.fileno(), asked, have - asked, os.POSIX_FADV_DONTNEED)
            asked = have


def _take_over(out: Any, digest: Digest, size: int) -> int:
    """Digest what an earlier attempt wrote; a new write goes on behind it."""
    out.truncate(size)
    while True:
        buffer = digest.buffer()
        block = memoryview(buffer)[: out.readinto(buffer)]
        if not block:
            return int(out.tell())
        digest.update(buffer, block)


@contextlib.contextmanager
def _source(item: Mapping[str, Any], have: int, claims: str, timeout_s: float) -> Iterator[Fill]:
    """What fills a buffer with the object's next bytes, from the `have`th on; says how many, 0 at the end."""
    if "seed" in item:
        yield _made_up(str(item["seed"]), int(item["bytes"]), have)
    elif "path" in item:
        path = os.path.join(claims, str(item["storage"]), str(item["path"]))
        if not os.path.exists(path):
            raise Refused("no such object on the claim")
        with open(path, "rb", buffering=0) as source:
            source.seek(have)
            yield source.readinto
    else:
        with _answer(str(item["url"]), have, int(item["bytes"]), timeout_s) as answer:

            def fill(buffer: bytearray) -> int:
                with _broken_or_refused():
                    return int(answer.readinto(buffer))

            yield fill


def _made_up(seed: str, size: int, have: int) -> Fill:
    blocks = (block for number, block in enumerate(generated(seed, size)) if number * BLOCK >= have)

    def fill(buffer: bytearray) -> int:
        block = next(blocks, b"")
        buffer[: len(block)] = block
        return len(block)

    return fill


def _answer(url: str, have: int, wanted: int, timeout_s: float) -> Any:
    """The open answer of the source, its promised length checked; to be closed."""
    request = urllib.request.Request(url, headers={"Range": "bytes=%d-" % have} if have else {})
    with _broken_or_refused():
        answer = urllib.request.urlopen(request, timeout=timeout_s)
    with contextlib.ExitStack() as undo:
        undo.push(answer)
        if have and answer.status != 206:
            raise _FromTheStart("the source gives no ranges")
        length = answer.headers.get("Content-Length")
        if length is not None and int(length) != wanted - have:
            raise Wrong("wrong length: the source says %d bytes, the manifest %d" % (have + int(length), wanted))
        undo.pop_all()
    return answer


@contextlib.contextmanager
def _broken_or_refused() -> Iterator[None]:
    """What goes wrong with a source, in words that hold no URL, and by whether it may pass."""
    try:
        yield
    except urllib.error.HTTPError as error:
        said = "the source answers %d %s" % (error.code, error.reason)
        error.close()
        if error.code in _MAY_PASS:
            raise _Again(said) from None
        raise Refused(said) from None
    except (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError) as error:
        raise _Again("the connection to the source broke (%s)" % type(error).__name__) from None


def _publish(part: str, place: str) -> None:
    os.rename(part, place)
    directory = os.open(os.path.dirname(place), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
