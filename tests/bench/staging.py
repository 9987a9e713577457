"""What staging costs beside a plain copy of the same object on the same path: verified and published, or only copied.

A plain HTTP server serves a stored file over loopback, as fast as it can or at the rate of a link; each round copies
with every plain tool there is and stages once. All of them make what they wrote durable.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from workloads.dataset_objects import BLOCK, fetch
from workloads.dataset_staging import copy_one

OBJECT_MIB = 128
ROUNDS = 5
LINK_GB_PER_S = 0.125
"""A path that is slower than the cores at its ends: 1 Gbit/s."""


@dataclass(frozen=True)
class Compared:
    """Median rates in GB/s: of staging, of each plain tool, and of sha256 alone on one core."""

    staged_gb_per_s: float
    plain_gb_per_s: Mapping[str, float]
    sha256_gb_per_s: float

    @property
    def share(self) -> float:
        """Staging as a share of the fastest plain copy."""
        return self.staged_gb_per_s / max(self.plain_gb_per_s.values())


def compare(link_gb_per_s: float = 0.0) -> Compared:
    """Copy and stage one object in turns, over a path of this rate (0: as fast as it goes)."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.urandom(BLOCK) * OBJECT_MIB
        (Path(folder) / "objects" / "b").mkdir(parents=True)
        (Path(folder) / "objects" / "b" / "x").write_bytes(data)
        took: dict[str, list[float]] = {}
        with _served(Path(folder) / "objects", link_gb_per_s) as address:
            item = {
                "name": "x",
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "url": f"{address}/b/x",
            }
            ways: dict[str, Callable[[Path], object]] = {
                "staged": lambda place: fetch(item, str(place), "", 1, 60.0),
                "copy loop": lambda place: _copy_loop(item, place),
                "sha256": lambda _: hashlib.sha256(data),
            }
            if shutil.which("curl"):
                ways["curl"] = lambda place: _curl(item["url"], place)
            for number in range(ROUNDS):
                for name, way in ways.items():
                    place = Path(folder) / "out" / str(number)
                    place.parent.mkdir(exist_ok=True)
                    began = time.monotonic()
                    way(place)
                    took.setdefault(name, []).append(time.monotonic() - began)
                    place.unlink(missing_ok=True)
    rates = {name: len(data) / 1e9 / statistics.median(seconds) for name, seconds in took.items()}
    return Compared(rates.pop("staged"), sha256_gb_per_s=rates.pop("sha256"), plain_gb_per_s=rates)


def _copy_loop(item: Mapping[str, Any], place: Path) -> None:
    with place.open("wb") as out:
        copy_one(item, out, 60.0)
        out.flush()
        os.fsync(out.fileno())


def _curl(url: object, place: Path) -> None:
    subprocess.run(["curl", "--silent", "--fail", "--output", str(place), str(url)], check=True)
    with place.open("rb") as out:
        os.fsync(out.fileno())


@contextmanager
def _served(directory: Path, link_gb_per_s: float) -> Iterator[str]:
    """A plain server in a process of its own, so that it shares nothing but the cores with what is measured."""
    command = [sys.executable, "-u", "-m", "tests.bench.staging", str(directory), str(link_gb_per_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def serve(directory: str, link_gb_per_s: float) -> None:
    """Serve the files of a directory on loopback until ended; says its port first."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=directory)

        def copyfile(self, source: Any, outputfile: Any) -> None:
            began, sent = time.monotonic(), 0
            for block in iter(lambda: source.read(BLOCK // 4), b""):
                outputfile.write(block)
                sent += len(block)
                if link_gb_per_s:
                    # A link's pace, not waiting for something to happen.
                    time.sleep(max(0.0, began + sent / 1e9 / link_gb_per_s - time.monotonic()))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]))
