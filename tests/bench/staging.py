"""What staging costs beside a plain copy of the same object on the same path: verified and published, or only copied.

A plain HTTP server serves a stored file over loopback; each round copies and stages once.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.dataset_objects import BLOCK, fetch
from workloads.dataset_staging import copy_one

OBJECT_MIB = 128
ROUNDS = 7


@dataclass(frozen=True)
class Compared:
    """Median rates in GB/s."""

    plain_gb_per_s: float
    staged_gb_per_s: float

    @property
    def share(self) -> float:
        """Staging as a share of the plain copy."""
        return self.staged_gb_per_s / self.plain_gb_per_s


def compare() -> Compared:
    """Copy and stage one object in turns."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.urandom(BLOCK) * OBJECT_MIB
        (Path(folder) / "objects" / "b").mkdir(parents=True)
        (Path(folder) / "objects" / "b" / "x").write_bytes(data)
        plain, staged = [], []
        with _served(Path(folder) / "objects") as address:
            item = {
                "name": "x",
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "url": f"{address}/b/x",
            }
            for _ in range(ROUNDS):
                began = time.monotonic()
                with (Path(folder) / "plain").open("wb") as out:
                    copy_one(item, out, 60.0)
                    out.flush()
                    os.fsync(out.fileno())
                plain.append(len(data) / 1e9 / (time.monotonic() - began))
                began = time.monotonic()
                fetch(item, str(Path(folder) / "out" / "x"), "", 1, 60.0)
                staged.append(len(data) / 1e9 / (time.monotonic() - began))
    return Compared(statistics.median(plain), statistics.median(staged))


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """A plain server in a process of its own, so that it shares nothing but the cores with what is measured."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().split("port ")[1].split()[0]
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
