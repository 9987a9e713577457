"""A suite about Kubernetes itself: what the harness relies on, held against the simulated cluster or any other."""
