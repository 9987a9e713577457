"""RDMA: what a pod gets of it, and whether it carries what was bought."""
