"""Owns how the simulated measurements scatter. Committed before the planner, so that it was not made to suit it.

Every number is an assumption unless a source stands beside it; what matters is that they are stated, and were first.
"""

CEILING_GB_PER_S = 400.0
"""Ring ceiling of eight 400 Gb/s NICs a node."""

FLOOR_FRACTION = 0.75
"""Suggested fail line of the ring ceiling; derived from 22 published results, docs/localisation.md."""

HEALTHY_FRACTION = (0.85, 0.97)
"""A healthy cluster lies somewhere here, drawn once a cluster: where 20 of those 22 published results lie."""

LOSS_PER_DOUBLING = 0.005
"""A healthy whole set loses this share with each doubling of its nodes beyond two."""

NODE_SIGMA = 0.01
"""Lasting difference of one healthy node from another (standard deviation, share); fixed for a cluster."""

EXPERIMENT_SIGMA = 0.015
"""Difference of one run of a group from the next."""

REPEAT_SIGMA = 0.03
"""Difference of one repeat from the next within a run."""

GROUP_DIP = (0.002, 0.3, 0.9)
"""Chance that somebody else's traffic slows all repeats of a healthy group, and to which share (uniform, from, to)."""

REPEAT_DIP = (0.005, 0.2, 0.9)
"""The same for a single repeat."""

REPEATS = 20
"""Timed repeats of a group, fewer where its time limit ends it."""

CENSUS_RIGHT = 0.9
"""Chance that the census of a hung or dead group names the node that is the cause; else it names another of them."""
