"""Whole runs on the simulated cluster, started as a user starts them."""
