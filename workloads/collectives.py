"""The collectives that are measured: what each does to a buffer, how its result is verified, and its bus bandwidth.

Sizes and factors are those of nccl-tests (doc/PERFORMANCE.md of NVIDIA/nccl-tests), so that published numbers compare:
the size is the whole buffer of a rank (all_reduce, sendrecv), of the gathered output (all_gather) or of the input
(reduce_scatter, all_to_all); algbw = size / time; busbw = algbw x factor. Knows no process group set-up and no limit.

Verification is exact: rank r's buffer holds a * f(r) + b, a and b fresh random whole numbers of the order's seed that
every rank can make, f(r) = r % 16 + 1. They repeat after `PERIOD` elements. All sums stay below 2**24, so float32 adds
them exactly in any order, and one wrong element is one wrong element.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Tuple

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv")
ELEMENT_BYTES = 4
_FACTORS = 16
_RANGE = 8
PERIOD = 262_139
"""Data repeats after so many elements (a prime, so that no chunk, page or block begins alike): 1 MiB to make it."""


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
        torch = self._torch
        generator = torch.Generator().manual_seed(seed)
        pattern = torch.randint(-_RANGE, _RANGE + 1, (2, PERIOD), generator=generator).to(torch.float32)
        # Twice in a row, so that a piece that begins anywhere in the period is one slice.
        self._a, self._b = (torch.cat([each, each]).to(self._buffer.device) for each in pattern)
        self._output.fill_(float("nan"))
        own = (self._rank * self._chunk, self._chunk) if self.collective == "all_gather" else (0, self._buffer.numel())
        for start, count in _pieces(*own):
            values = self._values(start, count, _factor(self._rank), 1)
            self._buffer[start : start + count].copy_(through(values))

    def run(self) -> None:
        """Once; returns when this rank's part is done on the CPU, or enqueued on a GPU."""
        self._run()

    def wrong(self, through: Callable[[Any], Any]) -> int:
        """How many elements of the result are not what they must be; `through` is the way back from the device."""
        wrong = 0
        for place, length, start, a_times, b_times in self._expected():
            for offset, count in _pieces(0, length):
                found = through(self._output[place + offset : place + offset + count])
                wrong += int((found != self._values(start + offset, count, a_times, b_times)).sum().item())
        return wrong

    def _expected(self) -> Iterator[Tuple[int, int, int, int, int]]:
        """Parts of the output: place and length there, place in the pattern, multiples of a and of b."""
        chunk, everything = self._chunk, self._output.numel()
        total = sum(map(_factor, range(self._world)))
        if self.collective == "all_reduce":
            yield 0, everything, 0, total, self._world
        elif self.collective == "reduce_scatter":
            yield self._rank * chunk, chunk, self._rank * chunk, total, self._world
        elif self.collective == "sendrecv":
            yield 0, everything, 0, _factor((self._rank - 1) % self._world), 1
        else:
            for rank in range(self._world):
                source = rank if self.collective == "all_gather" else self._rank
                yield rank * chunk, chunk, source * chunk, _factor(rank), 1

    def _values(self, start: int, count: int, a_times: int, b_times: int) -> Any:
        begin = start % PERIOD
        return self._a[begin : begin + count] * a_times + self._b[begin : begin + count] * b_times

    def _mine(self) -> Any:
        return self._buffer[self._rank * self._chunk : (self._rank + 1) * self._chunk]

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


def _pieces(start: int, count: int) -> Iterator[Tuple[int, int]]:
    """Start and length of pieces no longer than a period."""
    for begin in range(start, start + count, PERIOD):
        yield begin, min(PERIOD, start + count - begin)


def _factor(rank: int) -> int:
    return rank % _FACTORS + 1
