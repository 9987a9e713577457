"""Checkpoints: whether a training that is killed goes on as the same training."""
