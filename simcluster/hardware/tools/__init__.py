"""Programs that stand in, inside simulated containers, for vendors' tools; they import nothing but each other."""
