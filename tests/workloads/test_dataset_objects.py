"""Fetching an object from a real HTTP server in every mood: whole and verified in its place, or not there at all."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from simcluster.objectstore import EVERYBODY, ObjectStore, Trouble, block
from workloads import dataset_objects
from workloads.dataset_objects import BLOCK, Fetched, Refused, Wrong, fetch, generated

SIZE = 3 * BLOCK + 17


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_objects, "_FIRST_PAUSE_S", 0.0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[tuple[ObjectStore, dict[str, Any]]]:
    served = ObjectStore(tmp_path / "objects")
    sock = socket.create_server(("127.0.0.1", 0))
    await served.start(sock)
    content = b"".join(block("s", number) for number in range(SIZE // len(block("s", 0)) + 1))[:SIZE]
    yield (
        served,
        {
            "name": "a/b.bin",
            "bytes": SIZE,
            "sha256": hashlib.sha256(content).hexdigest(),
            "url": f"http://127.0.0.1:{sock.getsockname()[1]}/synthetic/s/{SIZE}?signature=secret",
        },
    )
    await served.stop()
    sock.close()


async def fetched(item: dict[str, Any], place: Path, attempts: int = 4) -> Fetched:
    return await asyncio.to_thread(fetch, item, str(place), str(place.parent / "claims"), attempts, 10.0)


def left(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.parent.iterdir()) if place.parent.exists() else []


@pytest.mark.parametrize(
    ("trouble", "retries"),
    [
        (Trouble(), 0),
        (Trouble(status=500, times=2), 2),
        (Trouble(status=503, times=1), 1),
        (Trouble(drop_after_bytes=BLOCK, times=2), 2),
    ],
    ids=["sound", "500 twice", "503 once", "dropped twice"],
)
async def test_what_passes_is_survived_and_the_object_is_whole(
    store: tuple[ObjectStore, dict[str, Any]], tmp_path: Path, trouble: Trouble, retries: int
) -> None:
    served, item = store
    served.trouble(EVERYBODY, trouble)
    place = tmp_path / "out" / "b.bin"
    found = await fetched(item, place)
    assert found.retries == retries
    assert hashlib.sha256(place.read_bytes()).hexdigest() == item["sha256"]
    assert 0 < found.first_byte_s <= found.seconds
    assert left(place) == ["b.bin"]


async def test_it_goes_on_where_it_stopped(store: tuple[ObjectStore, dict[str, Any]], tmp_path: Path) -> None:
    served, item = store
    served.trouble(EVERYBODY, Trouble(drop_after_bytes=2 * BLOCK, times=1))
    place = tmp_path / "out" / "b.bin"
    with pytest.raises(Refused, match=r"ended after|connection to the source broke"):
        await fetched(item, place, attempts=1)
    # The second call finds what the first one left: one attempt is enough only if it asks for the rest alone, for the
    # store drops every answer that goes on for longer.
    served.trouble(EVERYBODY, Trouble(drop_after_bytes=2 * BLOCK))
    assert (await fetched(item, place, attempts=1)).retries == 0
    assert left(place) == ["b.bin"]


@pytest.mark.parametrize(
    ("trouble", "kind", "said"),
    [
        (Trouble(status=403), Refused, "a/b.bin: the source answers 403 Forbidden"),
        (Trouble(status=404), Refused, "a/b.bin: the source answers 404 Not Found"),
        (Trouble(status=500), Refused, "a/b.bin: the source answers 500 Internal Server Error, 4 times"),
        (Trouble(length_change=9), Wrong, f"wrong length: the source says {SIZE + 9} bytes, the manifest {SIZE}"),
        (Trouble(length_change=-9), Wrong, f"wrong length: the source says {SIZE - 9} bytes, the manifest {SIZE}"),
        (Trouble(flip=True), Wrong, "a/b.bin: wrong content: its sha256 is not the manifest's"),
    ],
    ids=["403", "404", "500", "too long", "truncated", "flipped bit"],
)
async def test_what_does_not_pass_is_named_and_nothing_is_published(
    store: tuple[ObjectStore, dict[str, Any]], tmp_path: Path, trouble: Trouble, kind: type[Exception], said: str
) -> None:
    served, item = store
    served.trouble(EVERYBODY, trouble)
    place = tmp_path / "out" / "b.bin"
    with pytest.raises(kind) as raised:
        await fetched(item, place)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)
    assert not place.exists()


def test_an_object_of_a_claim_is_copied_and_a_missing_one_is_no_fault_of_the_storage(tmp_path: Path) -> None:
    (tmp_path / "claims" / "shared").mkdir(parents=True)
    (tmp_path / "claims" / "shared" / "x").write_bytes(b"data")
    item = {"name": "x", "bytes": 4, "storage": "shared", "path": "x", "sha256": hashlib.sha256(b"data").hexdigest()}
    place = tmp_path / "out" / "x"
    fetch(item, str(place), str(tmp_path / "claims"), 1, 1.0)
    assert place.read_bytes() == b"data"
    with pytest.raises(Refused, match="y: no such object on the claim"):
        fetch({**item, "name": "y", "path": "y"}, str(place), str(tmp_path / "claims"), 1, 1.0)


def test_a_full_disk_publishes_nothing_and_says_so(tmp_path: Path) -> None:
    part = tmp_path / "out" / "x.part"
    part.parent.mkdir()
    part.symlink_to("/dev/full")
    item = {"name": "x", "bytes": 4, "seed": "s", "sha256": ""}
    with pytest.raises(Wrong, match="x: ENOSPC, nothing published: No space left on device"):
        fetch(item, str(tmp_path / "out" / "x"), "", 3, 1.0)
    assert left(tmp_path / "out" / "x") == []


def test_generated_bytes_are_the_same_at_every_read_and_as_many_as_asked_for() -> None:
    data = b"".join(generated("seed", SIZE))
    assert len(data) == SIZE
    assert data == b"".join(generated("seed", SIZE))
    assert data != b"".join(generated("other", SIZE))
