"""The stand-ins answer as the real tools and libraries do, and fail with the real codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simcluster.hardware.build import build_into
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.tools import nvidia_smi
from simcluster.topology import GpuModel


@pytest.fixture
def node() -> NodeGpus:
    return NodeGpus.of("gpu-01", GpuModel(count=2))


@pytest.fixture
def state(node: NodeGpus, tmp_path: Path) -> Path:
    place = tmp_path / "gpus"
    node.show(place, [gpu.uuid for gpu in node.gpus])
    return place


def smi(state: Path, *arguments: str) -> tuple[str, int]:
    return nvidia_smi.answer(nvidia_smi.read_state(str(state)), list(arguments))


def test_cuda_shows_only_the_devices_that_the_environment_names(state: Path, node: NodeGpus, tmp_path: Path) -> None:
    build_into(tmp_path)
    program = (
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1');"
        "count = ctypes.c_int(); uuid = ctypes.create_string_buffer(16);"
        "code = cuda.cuInit(0); cuda.cuDeviceGetCount(ctypes.byref(count));"
        "code or cuda.cuDeviceGetUuid(uuid, 0); print(code, count.value, uuid.raw[:4].hex())"
    )

    def seen(visible: str) -> list[str]:
        environment = dict(os.environ, SIMCLUSTER_GPU_STATE=str(state), LD_LIBRARY_PATH=str(tmp_path))
        environment["CUDA_VISIBLE_DEVICES"] = visible
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        return done.stdout.decode().split()

    first, second = (gpu.uuid for gpu in node.gpus)
    assert seen(second) == ["0", "1", second[4:12]]
    assert seen(f"{second},{first}") == ["0", "2", second[4:12]]
    assert seen("1,7,0") == ["0", "1", second[4:12]]
    assert seen("")[0] == seen("GPU-ffffffff")[0] == "100"


def test_csv_query_with_header_and_units(state: Path, node: NodeGpus) -> None:
    text, code = smi(state, "--query-gpu=index,name,memory.total,driver_version", "--format=csv")
    assert code == 0
    assert text.splitlines() == [
        "index, name, memory.total [MiB], driver_version",
        f"0, SIMULATED-GPU, 4096 MiB, {node.driver}",
        f"1, SIMULATED-GPU, 4096 MiB, {node.driver}",
    ]


def test_csv_query_without_header_and_units(state: Path) -> None:
    text, _ = smi(state, "--query-gpu=index,memory.total,fan.speed", "--format=csv,noheader,nounits", "-i", "1")
    assert text == "1, 4096, [N/A]\n"


def test_an_unknown_field_is_refused_as_by_the_real_tool(state: Path) -> None:
    assert smi(state, "--query-gpu=uuid,foo", "--format=csv") == ('Field "foo" is not a valid field to query.\n\n', 2)


def test_list_names_product_and_uuid(state: Path, node: NodeGpus) -> None:
    text, _ = smi(state, "-L")
    assert text.splitlines() == [f"GPU {gpu.index}: SIMULATED-GPU (UUID: {gpu.uuid})" for gpu in node.gpus]


def test_table_lines_are_of_one_width(state: Path) -> None:
    text, code = smi(state)
    framed = [line for line in text.splitlines() if line.startswith(("|", "+"))]
    assert code == 0
    assert {len(line) for line in framed} == {91}


def test_no_device_and_no_driver_are_told_apart(tmp_path: Path, node: NodeGpus) -> None:
    node.show(tmp_path / "none", [])
    assert smi(tmp_path / "none") == ("No devices were found\n", 6)
    text, code = smi(tmp_path / "absent")
    assert code == 9
    assert "couldn't communicate with the NVIDIA driver" in text


def test_a_change_of_the_hardware_reaches_an_open_view(state: Path, node: NodeGpus) -> None:
    inode = state.stat().st_ino
    node.change(1, ecc_uncorrected=3)
    text, _ = smi(state, "--query-gpu=ecc.errors.uncorrected.volatile.total", "--format=csv,noheader")
    assert text.split() == ["0", "3"]
    assert state.stat().st_ino == inode, "the file is mounted into containers and must stay the same file"


DRIVER = """
import ctypes, json, sys
cuda = ctypes.CDLL(sys.argv[1] + "/libcuda.so.1")
out = {"init": cuda.cuInit(0)}
count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
out["count"] = cuda.cuDeviceGetCount(ctypes.byref(count)), count.value
out["bad ordinal"] = cuda.cuDeviceGet(ctypes.byref(device), 9)
cuda.cuDeviceGet(ctypes.byref(device), 0)
name = ctypes.create_string_buffer(64)
cuda.cuDeviceGetName(name, 64, device)
uuid = ctypes.create_string_buffer(16)
cuda.cuDeviceGetUuid_v2(uuid, device)
total, free = ctypes.c_size_t(), ctypes.c_size_t()
cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
major = ctypes.c_int()
cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
out |= {"name": name.value.decode(), "uuid": uuid.raw.hex(), "total": total.value, "major": major.value}
out["no context"] = cuda.cuCtxSynchronize()
out["create"] = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
address = ctypes.c_uint64()
out["alloc"] = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1024))
out["too much"] = cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 40))
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
out["used"] = total.value - free.value
back = ctypes.create_string_buffer(1024)
out["set"] = cuda.cuMemsetD8_v2(address, 7, ctypes.c_size_t(1024))
out["copy"] = cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(1024))
out["wrong"] = sum(byte != 7 for byte in back.raw)
out["beyond"] = cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(1025))
out["free"] = cuda.cuMemFree_v2(address), cuda.cuMemFree_v2(address)
text = ctypes.c_char_p()
cuda.cuGetErrorName(802, ctypes.byref(text))
out["802"] = text.value.decode()
nvml = ctypes.CDLL(sys.argv[1] + "/libnvidia-ml.so.1")
out["nvml"] = nvml.nvmlInit_v2()
handle, label = ctypes.c_void_p(), ctypes.create_string_buffer(96)
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
nvml.nvmlDeviceGetUUID(handle, label, 96)
out["nvml uuid"] = label.value.decode()
nvml.nvmlErrorString.restype = ctypes.c_char_p
out["nvml error"] = nvml.nvmlErrorString(nvml.nvmlDeviceGetHandleByIndex_v2(7, ctypes.byref(handle))).decode()
print(json.dumps(out))
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lib")
    build_into(directory)
    return directory


def drive(libraries: Path, state: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", DRIVER, str(libraries)],
        env={**os.environ, "SIMCLUSTER_GPU_STATE": str(state)},
        capture_output=True,
        check=True,
        timeout=30,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_healthy_gpu_through_the_driver_api(libraries: Path, state: Path, node: NodeGpus) -> None:
    assert drive(libraries, state) == {
        "init": 0,
        "count": [0, 2],
        "bad ordinal": 101,
        "name": "SIMULATED-GPU",
        "uuid": node.gpus[0].uuid.removeprefix("GPU-").replace("-", ""),
        "total": 4096 << 20,
        "major": 9,
        "no context": 201,
        "create": 0,
        "alloc": 0,
        "too much": 2,
        "used": 1024,
        "set": 0,
        "copy": 0,
        "wrong": 0,
        "beyond": 1,
        "free": [0, 1],
        "802": "CUDA_ERROR_SYSTEM_NOT_READY",
        "nvml": 0,
        "nvml uuid": node.gpus[0].uuid,
        "nvml error": "Invalid Argument",
    }


@pytest.mark.parametrize(
    ("change", "key", "code"),
    [
        ({"context_error": 214}, "create", 214),
        ({"compute_error": 719}, "set", 719),
        ({"compute_error": 999}, "copy", 999),
        ({"flips_bits": True}, "wrong", 1),
    ],
)
def test_a_sick_gpu_fails_with_the_real_code(
    libraries: Path, state: Path, node: NodeGpus, change: dict[str, object], key: str, code: int
) -> None:
    node.change(0, **change)
    assert drive(libraries, state)[key] == code


def test_a_node_that_cannot_initialise(libraries: Path, state: Path, node: NodeGpus) -> None:
    node.init_error = 802
    node.publish()
    found = drive(libraries, state)
    assert (found["init"], found["count"]) == (802, [3, 0])


def test_identities_differ_between_nodes_and_stay_the_same(node: NodeGpus) -> None:
    again, other = NodeGpus.of("gpu-01", GpuModel(count=2)), NodeGpus.of("gpu-02", GpuModel(count=2))
    assert again.gpus == node.gpus
    assert not {gpu.uuid for gpu in other.gpus} & {gpu.uuid for gpu in node.gpus}
    assert replace(node.gpus[0], index=1, uuid="", pci_bus_id="", serial="") == replace(
        node.gpus[1], uuid="", pci_bus_id="", serial=""
    )
