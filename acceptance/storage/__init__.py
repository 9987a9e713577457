"""Storage: whether claims do, hold and deliver what checkpoints and datasets need."""
