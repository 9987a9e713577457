"""A stand-in of the JobSet operator (jobset.x-k8s.io), from what its project publishes."""
