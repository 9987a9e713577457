"""Faults as data: one TOML a fault, and the engine that applies them."""
