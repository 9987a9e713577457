"""The libibverbs stand-in through ctypes: what sysfs says, the life of a queue pair, and the kernel's errors."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from simcluster.hardware.build import VERBS, build_into
from simcluster.hardware.rdma import Attachment, NodeRdma
from simcluster.topology import Rdma
from tests.simcluster.node.cluster_process import Namespace, terminated

MIB = 1 << 20
_LinkLayer = Literal["InfiniBand", "Ethernet"]

# Layouts as in infiniband/verbs.h; byte offsets are written out so that they do not follow the library's own structs.
DRIVER = r"""
import ctypes as c, errno, json, os, resource, struct, sys
try:
    lib = c.CDLL("libibverbs.so.1", use_errno=True)
except OSError as error:
    print(json.dumps({"load": str(error)}))
    raise SystemExit
P = c.c_void_p
for name in ("get_device_list", "open_device", "alloc_pd", "reg_mr", "create_cq", "create_qp"):
    getattr(lib, "ibv_" + name).restype = P
lib.ibv_get_device_name.restype = c.c_char_p
lib.ibv_get_device_guid.restype = c.c_uint64
name_of = lambda code: "EOPNOTSUPP" if code == errno.EOPNOTSUPP else errno.errorcode.get(code, code)
made = lambda pointer: "ok" if pointer else name_of(c.get_errno())
count = c.c_int(-1)
devices = lib.ibv_get_device_list(c.byref(count))
out = {"list": made(devices), "count": count.value}
if not count.value:
    print(json.dumps(out))
    raise SystemExit
out["names"] = [lib.ibv_get_device_name(P(p)).decode() for p in c.cast(devices, c.POINTER(P))[:count.value]]
first = P(c.cast(devices, c.POINTER(P))[0])
out["guid"] = struct.pack("=Q", lib.ibv_get_device_guid(first)).hex()
context = P(lib.ibv_open_device(first))
lib.ibv_free_device_list(P(devices))
device = c.create_string_buffer(232)
out["query device"] = lib.ibv_query_device(context, device)
fields = struct.unpack_from("=64s8s8sQQIIIi", device.raw)
out["firmware"], out["node guid"], out["max mr"] = fields[0].rstrip(b"\0").decode(), fields[1].hex(), fields[3]
out["vendor"], out["part"], out["max qp"], out["ports"] = fields[5], fields[6], fields[8], device.raw[227]
port = c.create_string_buffer(b"\xee" * 64, 64)
out["query port"] = lib.ibv_query_port(context, 1, port)
f = struct.unpack_from("=iiiiIIIIHHHBBBBBBBBBB", port.raw)
out["port"] = dict(zip(("state", "max_mtu", "active_mtu", "gids"), f), pkeys=f[8], lid=f[9], sm_lid=f[10],
                   width=f[16], speed=f[17], phys=f[18], layer=f[19])
out["beyond flags"] = port.raw[48:] == b"\xee" * 16
out["port 9"] = name_of(lib.ibv_query_port(context, 9, port))
gid, pkey = c.create_string_buffer(16), c.create_string_buffer(2)
out["gid"] = lib.ibv_query_gid(context, 1, 1, gid), gid.raw.hex()
out["gid 99"] = lib.ibv_query_gid(context, 1, 99, gid), name_of(c.get_errno())
out["pkey"] = lib.ibv_query_pkey(context, 1, 0, pkey), pkey.raw.hex()
pd = P(lib.ibv_alloc_pd(context))
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]))
out["limit"] = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
buffer = c.create_string_buffer(64 << 20)
def register(address, size, access=7):
    mr = lib.ibv_reg_mr(pd, P(address), c.c_size_t(size), access)
    return P(mr), made(mr)
small, out["64 KiB"] = register(c.addressof(buffer), 64 << 10)
large, out["64 MiB"] = register(c.addressof(buffer), 64 << 20)
out["no length"] = register(c.addressof(buffer), 0)[1]
out["remote only"] = register(c.addressof(buffer), 4096, 2)[1]
out["unmapped"] = register(4096, 4096)[1]
out["pd in use"] = name_of(lib.ibv_dealloc_pd(pd)) if small.value else "unused"
out["no cq entries"] = made(lib.ibv_create_cq(context, 0, None, None, 0))
cq = P(lib.ibv_create_cq(context, 100, None, None, 0))
if not cq.value:  # its ring counts, too
    print(json.dumps(out | {"cq": name_of(c.get_errno())}))
    raise SystemExit
out["cqe"] = c.c_int.from_address(cq.value + 28).value
def wanted(kind, depth=16):
    return c.create_string_buffer(struct.pack("=QQQQIIIIIii", 0, cq.value, cq.value, 0, depth, depth, 1, 1, 0, kind, 0))
out["qp of no kind"] = made(lib.ibv_create_qp(pd, wanted(77)))
out["qp too deep"] = made(lib.ibv_create_qp(pd, wanted(2, 1 << 20)))
qp = P(lib.ibv_create_qp(pd, wanted(2)))
def step(state, mask, mtu=5, glob=1, number=1):
    attr = bytearray(144)
    struct.pack_into("=iii", attr, 0, state, 0, mtu)
    attr[56 + 20] = 1
    attr[56 + 29] = glob
    attr[129] = number
    return name_of(lib.ibv_modify_qp(qp, c.create_string_buffer(bytes(attr)), mask))
mask = lambda *bits: sum(1 << bit for bit in bits)
INIT, RTR, RTS = mask(0, 3, 4, 5), mask(0, 7, 8, 12, 15, 17, 20), mask(0, 9, 10, 11, 13, 16)
out["steps"] = [step(3, RTS), step(1, 1), step(1, INIT, number=7), step(1, INIT), step(3, RTS), step(2, RTR, mtu=9)]
out["steps"] += [step(2, RTR, glob=0)] if out["port"]["layer"] == 2 else []
out["steps"] += [step(2, RTR), step(3, RTS), step(1, INIT)]
attr, init = c.create_string_buffer(144), c.create_string_buffer(64)
out["query qp"] = lib.ibv_query_qp(qp, attr, 1, init), struct.unpack_from("=i", attr.raw)[0]
out["cq in use"] = name_of(lib.ibv_destroy_cq(cq))
out["end"] = [lib.ibv_destroy_qp(qp), lib.ibv_destroy_cq(cq)]
out["end"] += [lib.ibv_dereg_mr(mr) for mr in (small, large) if mr.value]
out["end"] += [lib.ibv_dealloc_pd(pd), lib.ibv_close_device(context)]
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("verbs")
    build_into(directory, VERBS)
    return directory


class Machine:
    """A root with two adapters and their device files."""

    def __init__(self, root: Path, library: Path, link_layer: _LinkLayer = "InfiniBand") -> None:
        self.tree = root / "sys" / "class" / "infiniband"
        self._root, self._library = root, library
        self.rdma = NodeRdma("gpu-01", Rdma(devices=2, link_layer=link_layer))
        (root / "dev" / "infiniband").mkdir(parents=True)
        for index in range(2):
            (root / "dev" / "infiniband" / f"uverbs{index}").touch()
        self.rdma.show(self.tree, [Attachment(f"mlx5_{n}", f"net{n + 1}", f"10.128.0.{n + 1}", "") for n in range(2)])

    def drive(self, *arguments: str, **variables: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", DRIVER, *arguments],
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(self._library),
                "SIMCLUSTER_SYSFS": str(self._root / "sys"),
                "SIMCLUSTER_DEV": str(self._root / "dev"),
                **variables,
            },
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def machine(tmp_path: Path, library: Path) -> Machine:
    return Machine(tmp_path, library)


def test_devices_and_ports_read_as_sysfs_has_them(machine: Machine) -> None:
    found = machine.drive()
    adapter = machine.rdma.adapters["mlx5_0"]
    guid = adapter.guid.replace(":", "")
    assert (found["list"], found["names"]) == ("ok", ["mlx5_0", "mlx5_1"])
    assert (found["guid"], found["node guid"], found["firmware"]) == (guid, guid, "28.39.1002")
    assert (found["vendor"], found["part"], found["ports"]) == (0x15B3, 0x1021, 1)
    assert found["max mr"] == (1 << 64) - 1
    assert found["max qp"] > 1000
    assert found["port"] == {
        "state": 4,
        "max_mtu": 5,
        "active_mtu": 5,
        "gids": 2,
        "pkeys": 1,
        "lid": adapter.lid,
        "sm_lid": 1,
        "width": 2,
        "speed": 128,
        "phys": 5,
        "layer": 1,
    }
    assert found["beyond flags"], "the exported call must not write what older callers have no room for"
    assert found["port 9"] == "EINVAL"
    assert found["gid"] == [0, "00000000000000000000ffff0a800001"]
    assert found["gid 99"] == [-1, "EINVAL"]
    assert found["pkey"] == [0, "ffff"]


@pytest.mark.parametrize("link_layer", ["InfiniBand", "Ethernet"])
def test_objects_live_and_die_in_order(tmp_path: Path, library: Path, link_layer: _LinkLayer) -> None:
    found = Machine(tmp_path, library, link_layer).drive(SIMCLUSTER_IPC_LOCK="1")
    assert found["port"]["layer"] == {"InfiniBand": 1, "Ethernet": 2}[link_layer]
    assert found["steps"] == [
        *["EINVAL"] * 3,
        0,
        *["EINVAL"] * (3 if link_layer == "Ethernet" else 2),  # there, a global route is a must
        *[0, 0, "EINVAL"],
    ]
    assert found["query qp"] == [0, 3]
    assert (found["pd in use"], found["cq in use"]) == ("EBUSY", "EBUSY")
    assert (found["no cq entries"], found["qp of no kind"], found["qp too deep"]) == ("EINVAL", "EOPNOTSUPP", "EINVAL")
    assert (found["no length"], found["remote only"], found["unmapped"]) == ("EINVAL", "EINVAL", "EFAULT")
    assert found["cqe"] >= 100
    assert found["end"] == [0] * 6


def test_pinned_memory_is_limited_unless_the_container_may_lock(machine: Machine) -> None:
    found = machine.drive(str(MIB))
    assert (found["64 KiB"], found["64 MiB"]) == ("ok", "ENOMEM")
    found = machine.drive(str(MIB), SIMCLUSTER_IPC_LOCK="1")
    assert (found["64 KiB"], found["64 MiB"]) == ("ok", "ok")


def test_a_port_that_is_not_active_reads_so(machine: Machine) -> None:
    machine.rdma.change("mlx5_0", active=False)
    port = machine.drive()["port"]
    assert (port["state"], port["phys"], port["lid"], port["sm_lid"]) == (1, 3, 0, 0)
    (machine.tree / "mlx5_0" / "ports" / "1" / "state").write_text("2: INIT\n")
    assert machine.drive()["port"]["state"] == 2


def test_without_devices_there_is_nothing_to_open(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "dev" / "infiniband" / "uverbs0").unlink()
    assert machine.drive()["names"] == ["mlx5_1"], "the real library lists none whose device file is missing"
    (tmp_path / "dev" / "infiniband" / "uverbs1").unlink()
    assert machine.drive() == {"list": "ok", "count": 0}
    assert machine.drive(SIMCLUSTER_SYSFS=str(tmp_path / "none")) == {"list": errno.errorcode[errno.ENOSYS], "count": 0}


def container(**more: Any) -> dict[str, Any]:
    return {"command": ["python3", "-c", DRIVER], **more}


def test_verbs_in_pods(ns: Namespace) -> None:
    granted = {"resources": {"limits": {"rdma/ib": "1"}}}
    ns.pod("limited", container(**granted))
    ns.pod("locking", container(**granted, securityContext={"capabilities": {"add": ["IPC_LOCK"]}}))
    ns.pod("without", container())
    found = {}
    for name in ("limited", "locking", "without"):
        assert terminated(ns.ended(name))["exitCode"] == 0, ns.log(name)
        found[name] = json.loads(ns.log(name))
    limited, locking = found["limited"], found["locking"]
    assert limited["names"] == ["mlx5_0"]
    assert (limited["port"]["state"], limited["port"]["layer"]) == (4, 2)
    fits = limited["limit"] == resource.RLIM_INFINITY or limited["limit"] >= 65 * MIB
    assert limited["64 MiB"] == ("ok" if fits else "ENOMEM")
    assert locking["64 MiB"] == "ok"
    assert locking["query qp"] == [0, 3]
    assert set(locking["end"]) == {0}
    assert "libibverbs.so.1" in found["without"]["load"]
