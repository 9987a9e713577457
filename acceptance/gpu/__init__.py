"""GPUs: what a pod gets and whether it works."""
