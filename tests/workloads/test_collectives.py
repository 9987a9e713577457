"""Verification of collectives: right results are right, and one wrong element is one, at odd sizes too."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from workloads.collectives import ELEMENT_BYTES, NAMES, PERIOD

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = f"""
import os, sys
import torch, torch.distributed as dist
from workloads.collectives import NAMES, Operation
rank = int(sys.argv[1])
store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
same = lambda tensor: tensor
for name in NAMES:
    for size in (4, {PERIOD * 4 + 64}):
        operation = Operation(torch, name, size, rank, 2, "cpu")
        operation.fill(7, same)
        operation.run()
        wrong = operation.wrong(same)
        operation._output[-1 if name != "reduce_scatter" else rank * operation._chunk] += 1
        one = operation.wrong(same)
        operation.fill(7, same)
        operation._buffer[rank * operation._chunk] += 1
        operation.run()
        spoiled = operation.wrong(same)
        print(rank, name, size, operation.size_bytes, wrong, one, spoiled > 0, flush=True)
dist.barrier()
os._exit(0)
"""


def test_two_ranks_agree_with_the_exact_result_and_see_one_wrong_element(tmp_path: Path) -> None:
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "store")],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    lines = [line.split() for rank in ranks for line in rank.communicate(timeout=120)[0].splitlines()]
    assert len(lines) == 2 * 2 * len(NAMES), lines
    for rank, name, size, moved, wrong, one, spoiled in lines:
        # Rounded down to whole elements for each rank, and to one at least, as nccl-tests does.
        assert abs(int(moved) - int(size)) <= ELEMENT_BYTES, (rank, name, size)
        assert (wrong, one, spoiled) == ("0", "1", "True"), (rank, name, size)


@pytest.mark.parametrize("start", [0, 1, PERIOD - 1, PERIOD])
def test_pieces_cover_everything_once(start: int) -> None:
    from workloads.collectives import _pieces  # noqa: PLC0415 - a part of the module that nobody else needs

    count = 2 * PERIOD + 5
    found = list(_pieces(start, count))
    assert found[0][0] == start
    assert sum(length for _, length in found) == count
    assert all(a + length == b for (a, length), (b, _) in pairwise(found))
