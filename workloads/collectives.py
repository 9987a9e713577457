"""The collectives that are measured: what each does to a buffer, how its result is verified, and its bus bandwidth.

Sizes and factors are those of nccl-tests (doc/PERFORMANCE.md of NVIDIA/nccl-tests), so that published numbers compare:
the size is the whole buffer of a rank (all_reduce, sendrecv), of the gathered output (all_gather) or of the input
(reduce_scatter, all_to_all); algbw = size / time; busbw = algbw x factor. Knows no process group set-up and no limit.

Verification is exact: rank r's buffer holds a * f(r) + b, a and b fresh random whole numbers of the order's seed that
every rank can make, f(r) = r % 16 + 1. All sums stay below 2**24, so float32 adds them exactly in any order, and one
wrong element is one wrong element.
"""

from __future__ import annotations

from typing import Any, Callable

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv")
ELEMENT_BYTES = 4
_FACTORS = 16
_RANGE = 8


def bus_factor(collective: str, ranks: int) -> float:
    """What algbw is multiplied with to give busbw, for so many ranks; KeyError for an unknown collective."""
    share = (ranks - 1) / ranks
    return {
        "all_reduce": 2 * share,
        "all_gather": share,
        "reduce_scatter": share,
        "all_to_all": share,
        "sendrecv": 1.0,
    }[collective]


def busbw_gb_per_s(collective: str, size_bytes: int, seconds: float, ranks: int) -> float:
    """Bus bandwidth in GB/s (1e9 B/s) of one operation; inf where no time passed, which no judge accepts."""
    if seconds <= 0:
        return float("inf")
    return size_bytes / seconds * bus_factor(collective, ranks) / 1e9


class Operation:
    """One collective at one size on this rank: `fill`, `run`, `wrong`. Buffers are made once and reused in place."""

    def __init__(self, torch: Any, collective: str, size_bytes: int, rank: int, world: int, device: str) -> None:
        self._torch, self._dist = torch, torch.distributed
        self.collective, self._rank, self._world = collective, rank, world
        elements = max(world, size_bytes // ELEMENT_BYTES // world * world)
        self.size_bytes = elements * ELEMENT_BYTES
        self._chunk = elements // world
        self._buffer = torch.empty(elements, dtype=torch.float32, device=device)
        self._output = torch.empty_like(self._buffer) if collective in ("all_to_all", "sendrecv") else self._buffer
        self._run: Callable[[], None] = {
            "all_reduce": self._all_reduce,
            "all_gather": self._all_gather,
            "reduce_scatter": self._reduce_scatter,
            "all_to_all": self._all_to_all,
            "sendrecv": self._sendrecv,
        }[collective]

    def fill(self, seed: int, through: Callable[[Any], Any]) -> None:
        """Fresh data from the seed; `through` is the way by which it reaches the device."""
        self._a, self._b = self._pattern(seed)
        mine = self._a * _factor(self._rank) + self._b
        self._output.fill_(float("nan"))
        if self.collective == "all_gather":
            self._buffer.fill_(float("nan"))
            self._mine().copy_(through(self._part(mine, self._rank)))
        else:
            self._buffer.copy_(through(mine))

    def run(self) -> None:
        """Once; returns when this rank's part is done on the CPU, or enqueued on a GPU."""
        self._run()

    def wrong(self, through: Callable[[Any], Any]) -> int:
        """How many elements of the result are not what they must be; `through` is the way back from the device."""
        wrong: int = (through(self._result()) != self._expected()).sum().item()
        return wrong

    def _pattern(self, seed: int) -> Any:
        torch = self._torch
        generator = torch.Generator().manual_seed(seed)
        both = torch.randint(-_RANGE, _RANGE + 1, (2, self._buffer.numel()), generator=generator)
        return both.to(torch.float32)

    def _result(self) -> Any:
        return self._mine() if self.collective == "reduce_scatter" else self._output

    def _expected(self) -> Any:
        everybody = range(self._world)
        if self.collective in ("all_reduce", "reduce_scatter"):
            total = self._a * sum(map(_factor, everybody)) + self._b * self._world
            return self._part(total, self._rank) if self.collective == "reduce_scatter" else total
        if self.collective == "sendrecv":
            return self._a * _factor((self._rank - 1) % self._world) + self._b
        cat = []
        for rank in everybody:
            place = rank if self.collective == "all_gather" else self._rank
            cat.append(self._part(self._a, place) * _factor(rank) + self._part(self._b, place))
        return self._torch.cat(cat)

    def _part(self, whole: Any, rank: int) -> Any:
        return whole[rank * self._chunk : (rank + 1) * self._chunk]

    def _mine(self) -> Any:
        return self._part(self._buffer, self._rank)

    def _all_reduce(self) -> None:
        self._dist.all_reduce(self._buffer)

    def _all_gather(self) -> None:
        self._dist.all_gather_into_tensor(self._buffer, self._mine())

    def _reduce_scatter(self) -> None:
        self._dist.reduce_scatter_tensor(self._mine(), self._buffer)

    def _all_to_all(self) -> None:
        self._dist.all_to_all_single(self._output, self._buffer)

    def _sendrecv(self) -> None:
        dist = self._dist
        to, source = (self._rank + 1) % self._world, (self._rank - 1) % self._world
        both = [dist.P2POp(dist.isend, self._buffer, to), dist.P2POp(dist.irecv, self._output, source)]
        for work in dist.batch_isend_irecv(both):
            work.wait()


def _factor(rank: int) -> int:
    return rank % _FACTORS + 1
