"""DaemonSets, ReplicaSets and Deployments."""
