"""Who asks, and whether they may: tokens, RBAC and the review kinds."""
