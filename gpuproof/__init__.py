"""gpuproof: acceptance tests for GPU Kubernetes clusters that cannot pass by accident."""
