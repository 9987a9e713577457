"""Performance, measured by `make bench` and never judged by a timed test: these machines are noisy."""
