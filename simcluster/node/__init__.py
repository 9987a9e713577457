"""The kubelet and its runtime: pods as isolated local processes. Sees the cluster only through a client."""
