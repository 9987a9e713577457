"""Ports read from a tree as the kernel lays it out."""

from __future__ import annotations

from pathlib import Path

from workloads.rdma_ports import bytes_through, ports


def put(root: Path, adapter: str, state: str, sent: str, received: str) -> None:
    port = root / adapter / "ports" / "1"
    (port / "counters").mkdir(parents=True)
    (port / "state").write_text(state + "\n", encoding="ascii")
    (port / "counters" / "port_xmit_data").write_text(sent + "\n", encoding="ascii")
    (port / "counters" / "port_rcv_data").write_text(received + "\n", encoding="ascii")
    (root / adapter / "device" / "net" / f"net-{adapter}").mkdir(parents=True)


def test_states_interfaces_and_bytes(tmp_path: Path) -> None:
    put(tmp_path, "mlx5_0", "4: ACTIVE", "100", "50")
    put(tmp_path, "mlx5_1", "1: DOWN", "7", "N/A (no PMA)")
    found = ports(str(tmp_path))
    assert [(port.name, port.active, port.interface) for port in found] == [
        ("mlx5_0:1", True, "net-mlx5_0"),
        ("mlx5_1:1", False, "net-mlx5_1"),
    ]
    assert bytes_through(found) == (428, 200)


def test_a_container_without_adapters_has_none(tmp_path: Path) -> None:
    assert ports(str(tmp_path / "absent")) == []
