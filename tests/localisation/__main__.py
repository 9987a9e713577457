"""`python -m tests.localisation`: simulates the localisation planner and writes the tables of docs/localisation.md.

Exits 1 where a target is missed. `--tuning` uses the seeds that may be looked at while the planner is changed, prints
the tables and writes nothing; `--nodes` and `--clusters` make it quicker and write nothing either.
"""

import argparse
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.localisation import costs, one_job
from tests.localisation.fabric import Fabric
from tests.localisation.scenarios import SCENARIOS, SIZES, leaves, named, very_slow
from tests.localisation.seeds import TUNING, UNSEEN, clusters
from tests.localisation.simulate import Localised, Total, gang_total_s, localise, seed_of, simulate, total
from tests.localisation.tables import Comparison, Row, comparison_table, row_table, targets

PAGE = Path(__file__).resolve().parents[2] / "docs" / "localisation.md"
MARKS = ("<!-- simulated: from here -->", "<!-- simulated: to here -->")
COMPARED_NODES, COMPARED_BAD, COMPARED_CLUSTERS = 232, 5, 100


def main() -> int:
    """Simulate everything; 0 where every target is met."""
    parser = argparse.ArgumentParser(prog="python -m tests.localisation", description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="the seeds that may be looked at")
    parser.add_argument("--nodes", type=int, action="append", help="only this size (repeatable)")
    parser.add_argument("--clusters", type=int, help="so many of each kind and size")
    parser.add_argument("--workers", type=int, help="processes, by default one a core")
    options = parser.parse_args()
    base = TUNING if options.tuning else UNSEEN
    sizes = options.nodes or SIZES
    # The largest first: what takes long must not be what is left for one process at the end.
    largest = sorted(sizes, reverse=True)
    jobs = [(index, nodes, base, options.clusters or clusters(nodes)) for nodes in largest for index in _kinds()]
    with ProcessPoolExecutor(options.workers) as pool:
        totals = pool.map(_total, jobs, chunksize=1)
        rows = [Row(SCENARIOS[index], nodes, seen) for (index, nodes, *_), seen in zip(jobs, totals, strict=True)]
        compared = list(pool.map(_compared, [base + at for at in range(COMPARED_CLUSTERS)], chunksize=4))
    met, lines = targets(rows, _compare(compared, base))
    text = "\n".join([*lines, "", *row_table(rows), "", *comparison_table(_compare(compared, base))])
    sys.stdout.write(text + "\n")
    if not options.tuning and not options.nodes and not options.clusters:
        _write(text)
    return 0 if met else 1


def _kinds() -> range:
    return range(len(SCENARIOS))


def _total(job: tuple[int, int, int, int]) -> Total:
    index, nodes, base, count = job
    return total(simulate(SCENARIOS[index], nodes, base, range(count)))


def _compared(seed: int) -> Localised:
    """Localise exactly five very slow nodes among 232."""
    chance = random.Random(seed_of(seed, "compared", COMPARED_NODES, 0))
    names = named(COMPARED_NODES)
    bad = {name: very_slow(chance) for name in chance.sample(names, COMPARED_BAD)}
    return localise(Fabric(names, leaves(names), bad_nodes=bad), seed)


def _compare(found: list[Localised], base: int) -> list[Comparison]:
    mean_later_s = sum(one.later_s for one in found) / len(found)
    compared = []
    for cluster in (costs.PUBLISHED, costs.QUICK):
        whole_s = sum(gang_total_s(one, cluster) for one in found) / len(found)
        for after_whole, gang_s in ((True, mean_later_s), (False, whole_s)):
            bills = [
                one_job.halving(COMPARED_NODES, COMPARED_BAD, cluster, base + at, after_whole=after_whole)
                for at in range(len(found))
            ]
            compared.append(Comparison.of(cluster.name, bills, COMPARED_NODES, gang_s, after_whole=after_whole))
    return compared


def _write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
