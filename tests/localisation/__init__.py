"""`python -m tests.localisation`: the localisation planner against simulated clusters, without any cluster."""
