"""Owns what the same question costs with one job a probe: halving, as published schemes do it."""

import random
from dataclasses import dataclass

from tests.localisation import costs, noise
from tests.localisation.scenarios import named, very_slow


@dataclass(frozen=True)
class Bill:
    """What a localisation cost."""

    rounds: int
    jobs: int
    wall_s: float
    node_s: float


def halving(nodes: int, bad: int, cluster: costs.Cluster, seed: int, *, after_whole: bool) -> Bill:
    """
    Return the bill of halving every slow group until single nodes are left, every group a job, a round in parallel.

    It is charged kindly: readings are taken as never wrong, no counterfactual and no single-node run is asked for.
    `after_whole` leaves out the first job, that of the whole set.
    """
    chance = random.Random(seed)
    names = named(nodes)
    slow = {name: very_slow(chance).factor for name in chance.sample(names, bad)}
    bill, groups = Bill(0, 0, 0.0, 0.0), [names]
    while groups:
        charged = [(len(group), costs.job_s(cluster, len(group), _transfer_s(group, slow))) for group in groups]
        if not (after_whole and len(groups[0]) == nodes):
            bill = Bill(
                bill.rounds + 1,
                bill.jobs + len(groups),
                bill.wall_s + max(taken_s for _, taken_s in charged),
                bill.node_s + sum(size * taken_s for size, taken_s in charged),
            )
        missed = [group for group in groups if len(group) > 1 and slow.keys() & set(group)]
        groups = [half for group in missed for half in (group[: len(group) // 2], group[len(group) // 2 :])]
    return bill


def _transfer_s(group: tuple[str, ...], slow: dict[str, float]) -> float:
    healthy = noise.CEILING_GB_PER_S * sum(noise.HEALTHY_FRACTION) / 2
    rate = healthy * min(slow.get(name, 1.0) for name in group)
    return (costs.WARM_UPS + noise.REPEATS) * costs.iteration_s(len(group), rate)
