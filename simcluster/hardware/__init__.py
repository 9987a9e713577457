"""What a node has (GPUs, NICs, disks, versions) and the stand-ins that show it to a pod. Knows no Kubernetes."""
