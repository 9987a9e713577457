"""What is read from NCCL's log: lines in the forms that documentation and public threads show, values changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.nccl_log import CLASSES, classify, join, read_folder, read_transport

RDMA = """\
node-a:71:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.9<0>
node-a:71:71 [0] NCCL INFO Using network IB
NCCL version 2.21.5+cuda12.4
node-a:71:88 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
node-a:71:88 [0] NCCL INFO Channel 01/0 : 15[7] -> 0[0] [receive] via NET/IB/1(8)/GDRDMA
node-a:71:88 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
"""
TCP = """\
node-b:90:90 [0] NCCL INFO NET/IB : No device found.
node-b:90:90 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>
node-b:90:90 [0] NCCL INFO Using network Socket
node-b:90:99 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
node-b:90:99 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0
"""
HALF = """\
node-c:11:20 [3] NCCL INFO Channel 00 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA
node-c:11:20 [3] NCCL INFO Channel 00 : 4[0] -> 3[3] [receive] via NET/IB/1
"""


def test_network_versions_and_ways_of_each_direction() -> None:
    found = read_transport(RDMA)
    assert found["networks"] == ["IB"]
    assert found["versions"] == ["2.21.5"]
    assert found["ways"] == {"receive NET/IB/GDRDMA": 2, "send NET/IB/GDRDMA": 1}


def test_ranks_are_counted_by_way_so_that_half_of_gdr_is_seen() -> None:
    joined = join([read_transport(RDMA), read_transport(HALF), read_transport(TCP)])
    assert joined["ranks"] == 3
    assert joined["networks"] == ["IB", "Socket"]
    assert joined["ranks_by_way"] == {
        "receive NET/IB/GDRDMA": 1,
        "send NET/IB/GDRDMA": 2,
        "receive NET/IB": 1,
        "receive NET/Socket": 1,
        "send NET/Socket": 1,
    }


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NCCL WARN Bootstrap : no socket interface found", "no_interface"),
        ("NCCL INFO NET/IB : No device found.", "ib_not_found"),
        ("misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "memlock"),
        ("Error while creating shared memory segment nccl-shm-recv-77 (size 9637888)", "shared_memory"),
        (
            "NCCL WARN Error: failed to extend /dev/shm/nccl-Kq2 to 9637892 bytes, error: No space left on device (28)",
            "shared_memory",
        ),
        ("NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-7 (size 8)", "segment_attach"),
        ("NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", "gid_index"),
        ("NCCL WARN Message truncated : received 256 bytes instead of 4", "version_drift"),
        ("NCCL WARN NET/IB : Got completion from peer 10.0.0.4<41000> with status=12 opcode=0 len=0", "qp_timeout"),
        ("NCCL INFO NET/Plugin: Could not find: aws-ofi libnccl-net-aws-ofi.so", "plugin_not_loaded"),
        ("NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this", "p2p_disabled"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda"),
        ("The server socket has failed to bind: [Errno 98] Address already in use", "address_in_use"),
    ],
)
def test_an_error_has_its_class_its_cause_and_its_line(line: str, kind: str) -> None:
    (found,) = classify(f"before\n{line}\nafter")
    assert found["class"] == kind
    assert found["line"] == line
    assert found["cause"] == next(cause for name, _, cause in CLASSES if name == kind)


def test_a_queue_pair_that_times_out_names_device_and_gids() -> None:
    line = (
        "ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR, "
        "local GID index 3, local GID fe80::9, remote GID fe80::17"
    )
    (found,) = classify(line)
    assert found["class"] == "qp_timeout"
    assert (found["device"], found["index"], found["local"], found["remote"]) == (
        "mlx5_3:1",
        "3",
        "fe80::9",
        "fe80::17",
    )


def test_words_of_nobody_are_no_class() -> None:
    assert classify(RDMA + "all is well\n") == []


def test_a_folder_without_logs_says_nothing_and_one_with_them_is_joined(tmp_path: Path) -> None:
    assert read_folder(str(tmp_path)) is None
    (tmp_path / "nccl-node-b-90").write_text(TCP, encoding="utf-8")
    (tmp_path / "log-0").write_text("not NCCL's", encoding="utf-8")
    found = read_folder(str(tmp_path))
    assert found is not None
    assert found["ranks"] == 1
    assert [error["class"] for error in found["errors"]] == ["ib_not_found"]
