"""Holds a node for a given time and reports that it did: what the harness itself costs, measured without any work.

No check uses it; `make bench` and the tests of sweeps do.
"""

from __future__ import annotations

import time

from workloads.contract import Measurement, Sample, emit, leave_on_sigterm, of_one_pod, parameters

PARAMETERS = ("seconds",)


def measure() -> Measurement:
    """Wait `seconds`, then report how long that took (s) and when it ended (Unix time, s)."""
    began = time.monotonic()
    time.sleep(float(parameters().get("seconds", 0.0)))
    paused = Sample("paused", time.monotonic() - began, "s")
    facts = {"ended_unix_s": time.time()}
    return of_one_pod("pause", (paused,), facts)


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
