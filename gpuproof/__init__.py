"""gpuproof: acceptance tests for GPU Kubernetes clusters; this package is the harness and knows no single check."""
