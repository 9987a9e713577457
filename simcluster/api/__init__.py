"""The API server: HTTP in, objects out. Knows no node and no controller."""
