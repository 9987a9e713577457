"""Field names and types of Kubernetes' kinds, read from the installed official client, and checks made with them."""
