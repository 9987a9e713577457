"""Observability: whether what the platform shows of its GPUs is there, and true."""
