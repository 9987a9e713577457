"""The object store as pods and clients use it: whole objects, ranges, and keys that lead nowhere else."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from simcluster.objectstore import ObjectStore, Trouble, block
from tests.simcluster.node.cluster_process import Namespace
from tests.simcluster.storage.test_claims import cluster, ns

__all__ = ["cluster", "ns"]


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    store = ObjectStore(tmp_path / "objects")
    sock = socket.create_server(("127.0.0.1", 0))
    await store.start(sock)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    await store.stop()
    sock.close()


async def test_objects_are_stored_listed_read_in_part_and_deleted(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        data = bytes(range(256)) * 4000
        assert (await session.put(f"{url}/sets/a/b.bin", data=data)).status == 200
        async with session.get(f"{url}/sets/a/b.bin") as answer:
            assert await answer.read() == data
            tag = answer.headers["ETag"]
        async with session.get(f"{url}/sets/a/b.bin", headers={"Range": "bytes=100-299"}) as answer:
            assert answer.status == 206
            assert answer.headers["Content-Range"] == f"bytes 100-299/{len(data)}"
            assert await answer.read() == data[100:300]
        async with session.get(f"{url}/sets/a/b.bin", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        async with session.get(f"{url}/sets/") as answer:
            assert await answer.json() == {"objects": [{"key": "a/b.bin", "bytes": len(data)}]}
        assert (await session.delete(f"{url}/sets/a/b.bin")).status == 204
        assert (await session.get(f"{url}/sets/a/b.bin")).status == 404


async def test_a_node_in_trouble_is_served_wrongly_and_nobody_else(tmp_path: Path) -> None:
    nodes = {"127.0.0.1": "n1", "127.0.0.2": "n2"}

    async def node_of(address: str | None) -> str:
        return nodes.get(address or "", "")

    store = ObjectStore(tmp_path / "objects", node_of)
    sock = socket.create_server(("127.0.0.1", 0))
    await store.start(sock)
    address = f"http://127.0.0.1:{sock.getsockname()[1]}/synthetic/s/1000"
    store.trouble("n1", Trouble(status=503, times=1))
    store.trouble("n2", Trouble(flip=True, length_change=-10))
    try:
        async with aiohttp.ClientSession() as first:
            assert [(await first.get(address)).status for _ in range(2)] == [503, 200]
            whole = await (await first.get(address)).read()
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=connector) as second:
            other = await (await second.get(address)).read()
    finally:
        await store.stop()
        sock.close()
    assert len(other) == 990
    assert [at for at in range(990) if other[at] != whole[at]] == [500]


async def test_synthetic_objects_are_the_same_at_every_read_and_in_every_part(url: str) -> None:
    size = 3 * len(block("s", 0)) + 17
    async with aiohttp.ClientSession() as session:
        whole = await (await session.get(f"{url}/synthetic/s/{size}")).read()
        assert len(whole) == size
        for first, last in ((0, 0), (5, 700_000), (size - 20, size - 1)):
            headers = {"Range": f"bytes={first}-{last}"}
            answer = await session.get(f"{url}/synthetic/s/{size}", headers=headers)
            assert answer.status == 206
            assert await answer.read() == whole[first : last + 1]
        suffix = await session.get(f"{url}/synthetic/s/{size}", headers={"Range": "bytes=-9"})
        assert await suffix.read() == whole[-9:]
        head = await session.head(f"{url}/synthetic/s/{10**13}")
        assert head.headers["Content-Length"] == str(10**13)
        beyond = await session.get(f"{url}/synthetic/s/{size}", headers={"Range": f"bytes={size}-"})
        assert beyond.status == 416
        other = await session.get(f"{url}/synthetic/t/{size}")
        assert await other.read() != whole


@pytest.mark.parametrize("path", ["a/../../etc/passwd", "a/%2e%2e/%2e%2e/x", "a", "a/.hidden", "a//b", "a/b%00"])
async def test_no_key_leads_out_of_the_store(url: str, path: str) -> None:
    async with aiohttp.ClientSession() as session:
        for method in ("GET", "PUT", "DELETE"):
            answer = await session.request(method, URL(f"{url}/{path}", encoded=True), data=b"x")
            assert answer.status in (400, 404), (method, answer.status)


def test_a_pod_reads_a_range_at_the_stores_name(ns: Namespace) -> None:
    program = (
        "import urllib.request as u\nurl = 'http://object-store.simcluster.svc:9000/synthetic/x/1000'\n"
        "whole = u.urlopen(url).read()\n"
        "part = u.urlopen(u.Request(url, headers={'Range': 'bytes=10-19'})).read()\n"
        "print(len(whole), part == whole[10:20])"
    )
    ns.pod("p", {"command": ["python3", "-c", program]})
    ns.ended("p")
    assert ns.log("p").split() == ["1000", "True"]
