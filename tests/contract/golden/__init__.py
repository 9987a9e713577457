"""Recorded scenarios of a real Kubernetes, replayed on the cluster under test and compared state by state."""
