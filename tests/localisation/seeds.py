"""Owns the seeds. `TUNING` may be looked at while the planner is written; `UNSEEN` is run when it is finished."""

TUNING = 20_261_130
UNSEEN = 7_340_033


def clusters(nodes: int) -> int:
    """Return how many clusters of a kind are simulated at a size: what one minute of two cores allows."""
    return 60 if nodes <= 64 else 8 if nodes <= 256 else 3 if nodes <= 512 else 2
