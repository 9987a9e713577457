"""The cluster under test, seen through its API. Knows no limit."""
