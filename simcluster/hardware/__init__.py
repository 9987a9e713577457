"""What a simulated node has: GPUs, their driver, and the stand-ins through which containers see them."""
