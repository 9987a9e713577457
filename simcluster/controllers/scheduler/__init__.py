"""The scheduler."""
