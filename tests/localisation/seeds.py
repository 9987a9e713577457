"""Owns the seeds. `TUNING` may be looked at while the planner is written; `UNSEEN` is run when it is finished.

Once the results of unseen seeds have led to a change of the planner they are unseen no more: a fresh number replaces
them, committed with the changed planner and before it is run. This is the second (the first was 7_340_033).
"""

TUNING = 20_261_130
UNSEEN = 41_220_953


def clusters(nodes: int) -> int:
    """Return how many clusters of a kind are simulated at a size: two minutes of two cores together."""
    return 60 if nodes <= 64 else 24 if nodes <= 256 else 8 if nodes <= 512 else 4
