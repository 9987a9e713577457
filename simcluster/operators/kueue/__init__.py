"""A stand-in of Kueue (kueue.x-k8s.io), from what its project publishes."""
