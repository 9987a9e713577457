"""A profile of few checks: what these tests show does not depend on which questions a run asks; their time does."""

from __future__ import annotations

from pathlib import Path

from gpuproof.catalogue import load_checks

QUICK = ("gpu_inventory", "cuda_runtime")


def few_checks(folder: Path, *required: str) -> Path:
    """The simulated profile with everything but these checks out of the question, as a site would write it."""
    state = '{ state = "not-applicable", reason = "this test is about runs as such" }'
    lines = ["schema = 1", 'profile = "few"', 'extends = "simulated"', "", "[checks]"]
    lines += [f"{check.name} = {state}" for check in load_checks() if check.name not in required]
    path = folder / "few.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
