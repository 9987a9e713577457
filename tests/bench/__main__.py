"""`make bench`: prints every figure with how it was taken; exits 1 where a count (not a time) is out of its bound."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import simulator, staging
from tests.bench.network import network
from tests.bench.sweeps import Cost, sweep

MOST_REQUESTS = 20
NODES = (4, 64, 512)
PAUSES_S = (0.01, 1.0, 10.0)
BLACK_HOLE = "black-hole-node"


def main() -> int:
    """Run every bench."""
    console = Console(width=150)
    console.print(f"gpuproof --help: {help_cpu_s():.2f} s of CPU (bound 0.5)")
    console.print(f"client: {simulator.CLIENT}")
    for figure in simulator.all_figures():
        console.print(figure.line())
    for path, link_gb_per_s in (("loopback", 0.0), (f"{staging.LINK_GB_PER_S:g} GB/s", staging.LINK_GB_PER_S)):
        staged = staging.compare(link_gb_per_s)
        plain = ", ".join(f"{tool} {rate:.3f}" for tool, rate in staged.plain_gb_per_s.items())
        console.print(
            f"staging over {path}: {staged.staged_gb_per_s:.3f} GB/s, plainly: {plain}; "
            f"of the fastest {staged.share:.0%} (bound 80 %); sha256 alone {staged.sha256_gb_per_s:.3f}"
        )
    found = network()
    console.print(
        f"network suite, 8 nodes x 2 ranks: {found.run_s:.1f} s (bound 60), {found.requests} requests, "
        f"{found.not_passed} verdicts that are not PASS"
    )
    table = Table(
        "nodes", "pause s", "fault", "visited once", "not visited", "jobs", "requests", "MB received", "lag s", "took s"
    )
    good = True
    for fault, cost in _costs():
        table.add_row(*_row(fault, cost))
        console.print(" ".join(_row(fault, cost)))
        expected = cost.nodes - (1 if fault else 0)
        visited = len(cost.visits) == expected and set(cost.visits.values()) == {1}
        good = good and visited and cost.requests <= MOST_REQUESTS
    console.print(table)
    console.print("lag: end of the last measurement in its pod to its result in the harness (bound 2 s)")
    return 0 if good else 1


def _costs() -> Iterator[tuple[str, Cost]]:
    for nodes in NODES:
        for pause_s in PAUSES_S:
            yield "", sweep(nodes, pause_s)
            with tempfile.TemporaryDirectory() as folder:
                yield BLACK_HOLE, sweep(nodes, pause_s, (str(_black_hole(Path(folder), nodes)),))


def _black_hole(folder: Path, nodes: int) -> Path:
    """The shipped fault, about the second node as a cluster of this size names it."""
    shipped = resources.files("simcluster.faults") / f"{BLACK_HOLE}.toml"
    file = folder / f"{BLACK_HOLE}.toml"
    second = f"gpu-{2:0{max(2, len(str(nodes)))}d}"
    file.write_text(shipped.read_text(encoding="utf-8").replace("gpu-02", second), encoding="utf-8")
    return file


def _row(fault: str, cost: Cost) -> tuple[str, ...]:
    return (
        str(cost.nodes),
        f"{cost.seconds:g}",
        fault or "none",
        str(sum(count == 1 for count in cost.visits.values())),
        str(len(cost.not_visited)),
        str(cost.jobs),
        str(cost.requests),
        f"{cost.bytes_received / 1e6:.2f}",
        f"{cost.lag_s:.2f}",
        f"{cost.took_s:.1f}",
    )


def help_cpu_s() -> float:
    """CPU seconds (user and system) of one `gpuproof --help`, the second of two: the first one compiles."""
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "--help"]
    subprocess.run(command, capture_output=True, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
