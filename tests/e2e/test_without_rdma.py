"""A profile that says "no RDMA" is answered NOT_APPLICABLE with its reason; one that names no resource gets a list."""

from __future__ import annotations

from pathlib import Path

from gpuproof.record import read_record
from gpuproof.selftest import run_once

SITE = """
schema = 1
profile = "site"
extends = "simulated"
"""
REASON = "the pool was bought without RDMA"


def test_no_rdma_is_not_applicable_and_the_rest_runs(tmp_path: Path) -> None:
    profile = tmp_path / "site.toml"
    states = "".join(
        f'{check} = {{ state = "not-applicable", reason = "{REASON}" }}\n'
        for check in ("rdma_attachment", "rdma_isolation")
    )
    profile.write_text(f"{SITE}\n[checks]\n{states}", encoding="utf-8")
    out = tmp_path / "run"
    reached = run_once((), out, profile, only=["gpu_inventory", "rdma_attachment", "rdma_isolation"])
    verdicts = {(check, row.verdict) for (check, _), row in reached.rows.items()}
    assert {("rdma_attachment", "NOT_APPLICABLE"), ("rdma_isolation", "NOT_APPLICABLE")} <= verdicts, reached.output
    assert ("gpu_inventory", "PASS") in verdicts
    said = [line for line in read_record(out / "record.jsonl") if line["event"] == "verdict"]
    assert any(REASON in " ".join(line["reasons"]) for line in said if line["check"] == "rdma_attachment")


def test_a_resource_that_the_profile_does_not_name_is_asked_for(tmp_path: Path) -> None:
    profile = tmp_path / "nameless.toml"
    fabric = 'rdma = { per_node = 2, rate_gbps = 2.5, link_layer = "Ethernet" }'
    profile.write_text(f"{SITE}\n[cluster]\n{fabric}\n", encoding="utf-8")
    reached = run_once((), tmp_path / "run", profile)
    assert reached.exit_code == 2, reached.output
    assert "rdma/ib on gpu-01, gpu-02, gpu-03 and 1 more" in " ".join(reached.output.split())
