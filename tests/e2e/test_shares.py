"""Nodes whose GPUs are shared: what the profile declares is what is tested, and the report says what that was."""

from __future__ import annotations

import html
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.catalogue import load_checks
from gpuproof.record import read_record

PROFILE = """
schema  = 1
profile = "shares"
extends = "simulated"

[cluster]
nodes                  = 1
gpu_resource           = "nvidia.com/gpu"
gpus_per_node          = {offered}
gpus_per_pod           = 1
physical_gpus_per_node = 2
gpu_product            = "{product}"
taints                 = "none"
{sharing}

[scope]
pool = {{ "node-pool" = "{pool}" }}

[checks]
{checks}

[[limit]]
check      = "gpu_inventory"
fact       = "pod_gpu_product"
per        = "gpu"
equals     = "{name}"
severity   = "fail"
provenance = {{ kind = "derived", formula = "by the test" }}
"""
MIG_LIMIT = """
[[limit]]
check      = "gpu_inventory"
fact       = "pod_mig_profile"
per        = "node"
expected   = "mig_profile"
severity   = "fail"
provenance = { kind = "derived", formula = "[cluster] mig_profile" }
"""


def run(directory: Path, asked: list[str], profile: str, **values: object) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, record and first screen of a run on the topology `shared` that asks only these checks."""
    states = (
        f'{check.name} = "required"' if check.name in asked
        else f'{check.name} = {{ state = "not-applicable", reason = "not the question here" }}'
        for check in load_checks()
    )  # fmt: skip
    path = directory / "shares.toml"
    path.write_text(profile.format(checks="\n".join(states), **values) + str(values.get("more", "")))
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim"]
    command += ["--sim-topology", "shared", "--profile", str(path), "--out", str(directory / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    page = html.unescape((directory / "run" / "report.html").read_text(encoding="utf-8"))
    return done.returncode, read_record(directory / "run" / "record.jsonl"), page


def test_a_mig_instance_is_tested_as_what_it_is(tmp_path: Path) -> None:
    code, record, page = run(
        tmp_path,
        ["gpu_inventory", "gpu_isolation", "gpu_exclusive"],
        PROFILE,
        offered=14,
        product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        name="NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        pool="mig-single",
        sharing='gpu_sharing = "mig"\nmig_profile = "1g.10gb"',
        more=MIG_LIMIT,
    )
    verdicts = {line["check"]: line["reasons"] for line in record if line["event"] == "verdict" and line["required"]}
    assert code == 0, verdicts
    assert "MIG 1g.10gb: pods held 1 of the 14 shares of a node" in page
    (found,) = [line for line in record if line.get("workload") == "exclusive_first" and "facts" in line]
    assert str(found["facts"]).count("MIG-") == 1


@pytest.mark.parametrize(("sharing", "code"), [('gpu_sharing = "time-slicing"', 0), ("", 1)])
def test_time_slices_pass_only_where_they_were_bought(tmp_path: Path, sharing: str, code: int) -> None:
    got, record, page = run(
        tmp_path,
        ["gpu_inventory"],
        PROFILE if sharing else PROFILE.replace("gpus_per_pod           = 1\n", ""),
        offered=8,
        product="NVIDIA-L40S-SHARED",
        name="NVIDIA L40S",
        pool="sliced",
        sharing=sharing,
    )
    reasons = [reason for line in record if line["event"] == "verdict" for reason in line["reasons"]]  # type: ignore[attr-defined]
    assert got == code, reasons
    if sharing:
        assert "time-slicing: pods held 1 of the 8 shares of a node" in page
    else:
        assert "gpu_sharing is time-slicing, expected = none (gpu_sharing of the profile)" in reasons
