"""RDMA in pods of a running cluster: interfaces, sysfs, tools, real bytes and their counters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simcluster.hardware.rdma import Attachment, NodeRdma
from simcluster.topology import Rdma
from tests.simcluster.node.cluster_process import Namespace, state, terminated, wait_for

LOOK = r"""
for i in $(ls /sys/class/net); do echo "net $i"; done
ls /sys/class/infiniband 2>/dev/null | sed 's/^/ib /'
ls /dev/infiniband 2>/dev/null | sed 's/^/dev /'
for t in ib_write_bw ibstat ibv_devinfo show_gids; do command -v $t | sed 's/.*\//tool /'; done
cat /sys/class/infiniband/*/ports/1/state 2>/dev/null
ls -d /sys/class/dmi /sys/class/mem 2>/dev/null | head -1
"""


def rdma(units: int) -> dict[str, Any]:
    return {"resources": {"limits": {"rdma/ib": str(units)}}}


def shell(script: str) -> dict[str, Any]:
    return {"command": ["sh", "-c", script]}


def test_a_pod_that_was_granted_adapters_sees_just_those(ns: Namespace) -> None:
    ns.pod("with", {**shell(LOOK), **rdma(2)})
    ns.pod("without", shell(LOOK))
    ns.ended("with")
    lines = ns.log("with").splitlines()
    assert {"net eth0", "net net1", "net net2", "ib mlx5_0", "ib mlx5_1"} <= set(lines)
    assert {"dev rdma_cm", "dev uverbs0", "dev uverbs1"} <= set(lines)
    assert [line for line in lines if line.startswith("tool")] == [
        f"tool {name}" for name in ("ib_write_bw", "ibstat", "ibv_devinfo", "show_gids")
    ]
    assert lines.count("4: ACTIVE") == 2
    assert any(line.startswith("/sys/class/") for line in lines), "the rest of sysfs stays visible"
    ns.ended("without")
    lines = ns.log("without").splitlines()
    assert "net eth0" in lines
    assert not [line for line in lines if "net1" in line or line.startswith(("ib ", "dev ", "tool "))]


def test_tools_describe_the_adapter_that_sysfs_shows(ns: Namespace) -> None:
    script = "ibv_devinfo; ibstat; show_gids; ibv_devices; cat /sys/class/infiniband/mlx5_0/node_guid"
    ns.pod("tools", {**shell(script), **rdma(1)})
    assert terminated(ns.ended("tools"))["exitCode"] == 0
    text = ns.log("tools")
    guid = text.splitlines()[-1]
    assert re.search(r"^hca_id:\tmlx5_0$", text, re.MULTILINE)
    assert re.search(rf"^\tnode_guid:\s+{guid}$", text, re.MULTILINE)
    assert re.search(r"^\t\t\tstate:\s+PORT_ACTIVE \(4\)$", text, re.MULTILINE)
    assert "CA 'mlx5_0'" in text
    assert "\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n" in text
    assert f"Node GUID: 0x{guid.replace(':', '')}" in text
    assert re.search(r"^mlx5_0\t1\t2\t0000:0000:0000:0000:0000:ffff:0a80:\w{4}\t10\.128\.\d+\.\d+ ", text, re.MULTILINE)
    assert "n_gids_found=4" in text


COUNT = "cat /sys/class/infiniband/mlx5_0/ports/1/counters/port_{}_data"
MOVED = 64 << 20


def test_bytes_move_over_the_adapter_and_its_counters_tell(ns: Namespace) -> None:
    server = f"ib_write_bw -d mlx5_0 -F; sleep 0.2; {COUNT.format('rcv')}"
    ns.pod("server", {**shell(server), **rdma(1)}, nodeName="gpu-01")
    started = ns.until("server", lambda pod: pod["status"].get("podIP"), "has an address")
    client = (
        f"{COUNT.format('xmit')}; E=$(cat /sys/class/net/eth0/statistics/tx_bytes);"
        f"for i in 1 2 3 4 5 6 7 8 9; do ib_write_bw -d mlx5_0 -F --report_gbits -s 65536 -n {MOVED >> 16}"
        f" --out_json --out_json_file=/tmp/o {started['status']['podIP']} && break; sleep 0.3; done;"
        f"sleep 0.2; {COUNT.format('xmit')}; echo eth0 $(( $(cat /sys/class/net/eth0/statistics/tx_bytes) - E ));"
        "cat /tmp/o"
    )
    ns.pod("client", {**shell(client), **rdma(1)}, nodeName="gpu-02")
    assert terminated(ns.ended("client"))["exitCode"] == 0
    text = ns.log("client")
    lines = text.splitlines()
    before = int(lines[0])
    result = re.search(rf"^ 65536 +{MOVED >> 16} +([\d.]+) +([\d.]+)\s+([\d.]+)$", text, re.MULTILINE)
    assert result is not None, text
    words = int(re.search(r"^(\d+)\neth0 (\d+)$", text, re.MULTILINE)[1]) - before  # type: ignore[index]
    assert MOVED <= words * 4 < MOVED * 1.2, "the sender's counter tells what was sent and little more"
    assert int(re.search(r"^eth0 (\d+)$", text, re.MULTILINE)[1]) < 1 << 20, "the data did not use eth0"  # type: ignore[index]
    report = json.loads(text[text.index("{") :])
    assert report["results"]["MsgSize"] == 65536
    assert report["results"]["BW_average"] == pytest.approx(float(result[2]))
    assert 0 < float(result[2]) < 2.7, "never faster than the link is shaped to"
    ns.ended("server")
    received = int(ns.log("server").splitlines()[-1]) * 4
    assert MOVED <= received < MOVED * 1.2


RAIL_SERVER = """
import socket
tail = socket.gethostbyname(socket.gethostname()).split(".", 2)[2]
for name, rail in (("net1", "10.128."), ("net2", "10.129.")):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, 25, name.encode())
    listener.bind((rail + tail, 9000))
    listener.listen()
    globals()[name] = listener
print("listens", flush=True)
import time; time.sleep(600)
"""
RAIL_CLIENT = """
import socket
def reaches(interface, address):
    with socket.socket() as stream:
        stream.setsockopt(socket.SOL_SOCKET, 25, interface.encode())
        stream.settimeout(10 if interface[3:] == address[0] else 1)
        try:
            stream.connect((address[1], 9000))
        except OSError:
            return "no"
    return "yes"
for interface in ("net1", "net2"):
    for address in (("1", "{first}"), ("2", "{second}")):
        print(interface, "to", "net" + address[0], reaches(interface, address))
"""


def test_an_adapter_reaches_its_own_rail_and_no_other(ns: Namespace) -> None:
    ns.pod("server", {"command": ["python3", "-c", RAIL_SERVER], **rdma(2)}, nodeName="gpu-03")
    started = ns.until("server", lambda pod: "running" in state(pod), "runs")
    wait_for(lambda: "listens" in ns.log("server"), "it listens")
    tail = started["status"]["podIP"].split(".", 2)[2]
    client = RAIL_CLIENT.format(first=f"10.128.{tail}", second=f"10.129.{tail}")
    ns.pod("client", {"command": ["python3", "-c", client], **rdma(2)}, nodeName="gpu-04")
    assert terminated(ns.ended("client"))["exitCode"] == 0
    assert ns.log("client").splitlines() == [
        "net1 to net1 yes",
        "net1 to net2 no",
        "net2 to net1 no",
        "net2 to net2 yes",
    ]


def test_errors_grow_with_the_bytes_that_pass(tmp_path: Path) -> None:
    node = NodeRdma("n", Rdma(devices=2))
    node.change("mlx5_1", errors_per_mib={"symbol_error": 0.5}, counters={"symbol_error": 3})
    node.show(tmp_path, [Attachment(f"mlx5_{n}", f"net{n + 1}", f"192.0.2.{n + 1}", f"rd{n}") for n in range(2)])

    def errors() -> list[str]:
        return [(tmp_path / f"mlx5_{n}/ports/1/counters/symbol_error").read_text().strip() for n in range(2)]

    assert errors() == ["0", "3"]
    for link in ("rd0", "rd1"):
        node.count(link, (6 << 20, 10), (4 << 20, 10))
    assert errors() == ["0", "8"]
