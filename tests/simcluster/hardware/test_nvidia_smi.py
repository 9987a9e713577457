"""nvidia-smi and NVML on GPUs that are split, worn, throttled, unreadable or gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simcluster.hardware.build import build_into
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.tools import nvidia_smi
from simcluster.topology import GpuModel, load


@pytest.fixture
def node() -> NodeGpus:
    return NodeGpus.of("n1", GpuModel.model_validate({"model": "H100", "count": 2}))


def smi(tmp_path: Path, gpus: NodeGpus, *arguments: str, units: list[str] | None = None) -> tuple[str, int]:
    place = tmp_path / "state"
    gpus.show(place, [gpu.uuid for gpu in gpus.gpus] if units is None else units)
    return nvidia_smi.answer(nvidia_smi.read_state(str(place)), list(arguments))


def csv(tmp_path: Path, gpus: NodeGpus, fields: str) -> list[str]:
    text, code = smi(tmp_path, gpus, f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    assert code == 0
    return text.splitlines()


def test_a_value_that_cannot_be_read_is_said_so_everywhere(tmp_path: Path, node: NodeGpus) -> None:
    node.change(0, errors=("power", "fan"))
    assert csv(tmp_path, node, "power.draw,temperature.gpu")[0] == "[Unknown Error], 34"
    table, _ = smi(tmp_path, node)
    assert "ERR!" in table.splitlines()[9]
    assert {len(line) for line in table.splitlines() if line.startswith(("|", "+"))} == {91}
    report, _ = smi(tmp_path, node, "-q", "-i", "0")
    assert "Power Draw                        : Unknown Error" in report


def test_throttling_shows_its_reason_under_the_old_names_and_the_new(tmp_path: Path, node: NodeGpus) -> None:
    node.change(1, throttle=0x48)
    fields = "clocks_event_reasons.active,clocks_throttle_reasons.hw_thermal_slowdown,clocks_event_reasons.gpu_idle"
    assert csv(tmp_path, node, fields) == [
        "0x0000000000000001, Not Active, Active",
        "0x0000000000000048, Active, Not Active",
    ]
    report, _ = smi(tmp_path, node, "-q", "-d", "PERFORMANCE", "-i", "1")
    assert "HW Slowdown                       : Active" in report
    assert "Product Name" not in report
    assert "ECC" not in report


def test_worn_memory_and_a_narrow_link(tmp_path: Path, node: NodeGpus) -> None:
    node.change(0, remapped_uncorrectable=2, remap_pending=True, pcie_width=8, ecc_uncorrected=1)
    fields = "remapped_rows.uncorrectable,remapped_rows.pending,pcie.link.width.current,pcie.link.width.max"
    assert csv(tmp_path, node, fields)[0] == "2, Yes, 8, 16"
    assert csv(tmp_path, node, "ecc.errors.uncorrected.volatile.dram") == ["1", "0"]


def test_a_lost_gpu_fails_the_whole_tool_but_not_the_others(tmp_path: Path, node: NodeGpus) -> None:
    node.change(0, lost=True)
    text, code = smi(tmp_path, node)
    assert (code, "GPU is lost" in text) == (15, True)
    assert smi(tmp_path, node, "-L", "-i", "1")[1] == 0


def test_mig_devices_stand_under_their_gpu(tmp_path: Path) -> None:
    model = load("shared").pools[0].gpu
    assert model is not None
    gpus = NodeGpus.of("n1", model)
    units = gpus.units()["nvidia.com/mig-1g.10gb"]
    text, _ = smi(tmp_path, gpus, "-L", units=units)
    assert text.splitlines() == [
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {gpus.gpus[0].uuid})",
        f"  MIG 1g.10gb     Device  0: (UUID: {units[0]})",
        f"  MIG 1g.10gb     Device  1: (UUID: {units[1]})",
    ]
    table, _ = smi(tmp_path, gpus, units=units)
    assert "MIG devices:" in table
    assert "Enabled" in table
    assert {len(line) for line in table.splitlines() if line.startswith(("|", "+"))} == {91}
    text, _ = smi(tmp_path, gpus, "--query-gpu=mig.mode.current,utilization.gpu", "--format=csv,noheader", units=units)
    assert text == "Enabled, [N/A]\n"


def test_topology_shows_gpus_as_far_apart_as_the_simulation_has_them(tmp_path: Path, node: NodeGpus) -> None:
    for down, way in ((0, "NV18"), (3, "NV15"), (18, "SYS")):
        node.change(1, nvlinks_down=down)
        text, code = smi(tmp_path, node, "topo", "-m")
        assert code == 0
        assert text.splitlines()[1].split("\t")[:3] == ["GPU0", " X ", way]


NVML = """
import ctypes, json, sys
nvml = ctypes.CDLL(sys.argv[1] + "/libnvidia-ml.so.1")
cuda = ctypes.CDLL(sys.argv[1] + "/libcuda.so.1")
nvml.nvmlInit_v2(); cuda.cuInit(0)
def ask(name, kind, *before):
    value = kind()
    code = getattr(nvml, name)(*before, ctypes.byref(value))
    return [code, value.value]
handle, other, instance = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
out = {"count": ask("nvmlDeviceGetCount_v2", ctypes.c_uint), "cuda": ctypes.c_int()}
cuda.cuDeviceGetCount(ctypes.byref(out["cuda"])); out["cuda"] = out["cuda"].value
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
out["power"] = ask("nvmlDeviceGetPowerUsage", ctypes.c_uint, handle)[0]
out["reasons"] = ask("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong, handle)
out["width"] = ask("nvmlDeviceGetCurrPcieLinkWidth", ctypes.c_uint, handle)
out["second"] = nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(other))
out["mig"] = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0, ctypes.byref(instance))
if out["mig"] == 0:
    name = ctypes.create_string_buffer(96)
    nvml.nvmlDeviceGetUUID(instance, name, 96)
    out["mig uuid"] = name.value.decode()
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lib")
    build_into(directory)
    return directory


def nvml(libraries: Path, tmp_path: Path, gpus: NodeGpus, units: list[str]) -> dict[str, object]:
    gpus.show(tmp_path / "state", units)
    environment = {**os.environ, "SIMCLUSTER_GPU_STATE": str(tmp_path / "state")}
    command = [sys.executable, "-I", "-S", "-c", NVML, str(libraries)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=30)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_nvml_tells_the_same(libraries: Path, tmp_path: Path, node: NodeGpus) -> None:
    node.change(0, errors=("power",), throttle=0x8, pcie_width=4)
    node.change(1, lost=True)
    assert nvml(libraries, tmp_path, node, [gpu.uuid for gpu in node.gpus]) == {
        "count": [0, 2],
        "cuda": 2,
        "power": 999,
        "reasons": [0, 8],
        "width": [0, 4],
        "second": 15,
        "mig": 6,
    }


def test_cuda_enumerates_instances_and_nvml_their_gpu(libraries: Path, tmp_path: Path) -> None:
    model = load("shared").pools[0].gpu
    assert model is not None
    gpus = NodeGpus.of("n1", model)
    units = gpus.units()["nvidia.com/mig-1g.10gb"]
    found = nvml(libraries, tmp_path, gpus, units)
    assert (found["count"], found["cuda"], found["mig uuid"]) == ([0, 1], 2, units[0])
