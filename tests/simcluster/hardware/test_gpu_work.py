"""What the CUDA and NVML stand-ins do under work: rates that follow the hardware, kernels, peers, counters, XIDs.

The workloads' own classes drive them, in a process of their own, as in a container.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from simcluster.hardware.build import KERNEL_LOG, LIBRARIES, build_into
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.pace import pace
from simcluster.node.load import read_page
from simcluster.topology import GpuModel

ROOT = Path(__file__).resolve().parents[3]
PRELUDE = """
import json, sys, time
from workloads.cuda_buffers import DeviceMemory, PinnedMemory, Stream, Timer
from workloads.cuda_driver import CudaError, Driver
from workloads.cuda_kernels import BLOCK, Kernels, word_at
from workloads.nvml import Nvml, NvmlError
from workloads.nvml_links import fabric_state, nvlinks, speed_gb_s
from workloads.nvml_watch import SmActivity, XidWatch
MIB = 1 << 20
driver, nvml = Driver(), Nvml()
gpus = nvml.devices()
out = {}
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lib")
    build_into(directory, {**LIBRARIES, **KERNEL_LOG})
    return directory


class Container:
    """The files that a container with both GPUs of a node has."""

    def __init__(self, libraries: Path, directory: Path) -> None:
        self.node = NodeGpus.of("gpu-01", GpuModel(count=2))
        self._libraries = libraries
        self._directory = directory
        units = [gpu.uuid for gpu in self.node.gpus]
        self.node.show(directory / "gpus", units)
        self.node.count_work(directory / "load", units)
        self.node.kernel_log.write_to(directory / "kernel-log")

    @property
    def page(self) -> bytes:
        return (self._directory / "load").read_bytes()

    def run(self, program: str, prelude: str = PRELUDE) -> Any:
        files = {
            "SIMCLUSTER_GPU_STATE": "gpus",
            "SIMCLUSTER_GPU_LOAD": "load",
            "SIMCLUSTER_KERNEL_LOG": "kernel-log",
            "TERMINATION_LOG": "message",
        }
        env = {**os.environ, **{name: str(self._directory / file) for name, file in files.items()}}
        env |= {"LD_LIBRARY_PATH": str(self._libraries), "LD_PRELOAD": str(self._libraries / "libsimkernel.so")}
        text = prelude + textwrap.dedent(program) + "\nprint(json.dumps(out))"
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def container(libraries: Path, tmp_path: Path) -> Container:
    return Container(libraries, tmp_path)


RATES = """
def rate(size, copy):
    with Timer(driver) as timer:
        copy(); stream.synchronize(); timer.start(stream.handle); copy()
        return size / timer.stop(stream.handle) / 1e6
with driver.open(0) as own, Stream(driver) as stream, PinnedMemory(driver, 2 * MIB) as host:
    with DeviceMemory(driver, 2 * MIB) as one, DeviceMemory(driver, 2 * MIB) as two:
        out["to_device"] = rate(2 * MIB, lambda: stream.to_device(one, host))
        out["to_host"] = rate(2 * MIB, lambda: stream.to_host(host, one))
        out["inside"] = rate(4 * MIB, lambda: stream.inside(two, one))
        kernels = Kernels(driver)
        out["mflops"] = rate(2 * 100 * 64 * BLOCK, lambda: kernels.burn(one.address, 100, 64, stream.handle))
        with driver.open(1) as theirs, DeviceMemory(driver, 2 * MIB) as far:
            own.use()
            out["to_peer"] = rate(2 * MIB, lambda: stream.from_peer(two, own, far, theirs))
"""


def test_work_is_never_faster_than_the_hardware_and_a_defect_makes_it_slower(container: Container) -> None:
    sound = pace(
        clock_share=1,
        memory_clock_share=1,
        foreign_share=0,
        pcie_generation=5,
        pcie_width=16,
        nvlinks_up=4,
        nvlink_mb_s=25000,
    )
    for name, value in container.run(RATES).items():
        assert value <= getattr(sound, name) * 1.001, name
    container.node.change(
        None, pcie_width=4, clock_cap_mhz=495, mem_clock_cap_mhz=654, nvlinks_down=3, foreign_percent=50
    )
    for name, value in container.run(RATES).items():
        assert value <= getattr(sound, name) * (0.13 if name == "mflops" else 0.26), name


MEMORY = """
words = 2 * MIB // 4
with driver.open(0) as context, DeviceMemory(driver, 2 * MIB) as memory, DeviceMemory(driver, 8) as counter:
    kernels = Kernels(driver)
    kernels.fill(memory.address, words, 7, 64)
    raw = memory.read(0, 400)
    out["as written"] = all(int.from_bytes(raw[4*i:4*i+4], "little") == word_at(i, 7) for i in range(100))
    for seed in (7, 8):
        counter.clear()
        kernels.verify(memory.address, words, seed, counter.address, 64)
        context.synchronize()
        out[seed] = int.from_bytes(counter.read(0, 8), "little")
    try:
        kernels.fill(memory.address, words + 1, 7, 64)
    except CudaError as error:
        out["beyond"] = error.code
    try:
        kernels._function("unknown")
    except CudaError as error:
        out["unknown"] = error.code
"""


def test_kernels_fill_and_verify_memory_and_notice_a_cell_that_forgets(container: Container) -> None:
    sound = container.run(MEMORY)
    assert sound == {"as written": True, "7": 0, "8": 524288, "beyond": 700, "unknown": 500}
    container.node.change(0, bad_mib=1)
    assert container.run(MEMORY)["7"] == 1


COUNTERS = """
counters = [SmActivity.of(nvml, gpu) for gpu in gpus]
watch = XidWatch(nvml, gpus)
with driver.open(0) as context, DeviceMemory(driver, MIB) as memory:
    kernels = Kernels(driver)
    for each in counters:
        each.begin()
    # Read while the kernel runs; a host that is late is given further chances.
    for chance in range(50):
        kernels.burn(memory.address, 500, 64)
        out["clock"], out["reasons"] = gpus[0].clock_mhz(), gpus[0].throttle_reasons()
        context.synchronize()
        if out["clock"] != 345:
            break
    out["launches"] = chance + 1
    out["activity"] = [each.end() for each in counters]
out["xids"] = watch.seen() + watch.seen()
out["idle"] = [gpus[1].clock_mhz(), gpus[1].throttle_reasons()]
"""


def test_counters_tell_the_work_of_the_gpu_that_did_it(container: Container) -> None:
    seen = container.run(COUNTERS)
    assert seen["activity"][0] > 0
    assert (seen["activity"][1], seen["xids"]) == (0, [])
    assert (seen["clock"], seen["reasons"], seen["idle"]) == (1980, 0, [345, 1])
    ((worked_ns, xid), nothing, *_) = read_page(container.page, 1 << 62)
    assert worked_ns == pytest.approx(seen["launches"] * 2 * 500 * 64 * 256 / 800e6 * 1e9, rel=0.01)
    assert (xid, nothing) == (0, (0, 0))


def test_work_is_counted_for_the_gpu_that_a_process_was_confined_to(container: Container) -> None:
    program = f"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = {container.node.gpus[1].uuid!r}\n" + PRELUDE
    seen = container.run(COUNTERS.replace("gpus[0]", "gpus[1]"), prelude=program)
    assert seen["activity"][0] == 0
    assert seen["activity"][1] > 0


def test_counters_can_stand_still_be_anothers_or_hold_foreign_work(container: Container) -> None:
    container.node.change(0, counters_frozen=True)
    container.node.change(1, foreign_percent=40)
    frozen, foreign = container.run(COUNTERS)["activity"]
    assert frozen == 0
    assert foreign == pytest.approx(0.4, abs=0.01)
    container.node.change(0, counters_frozen=False, counters_of=2)
    container.node.change(1, foreign_percent=0, counters_of=1)
    own, other = container.run(COUNTERS)["activity"]
    assert own == 0
    assert other > 0


def test_a_throttled_gpu_says_so_while_it_works_and_an_xid_arrives_once(container: Container) -> None:
    container.node.change(0, throttle_cause=0x40, clock_cap_mhz=495, xid_at_load=95)
    seen = container.run(COUNTERS)
    assert (seen["clock"], seen["reasons"], seen["xids"]) == (495, 0x40, [[0, 95]])
    assert read_page(container.page, 1 << 62)[0][1] == 95


HEALTH = """
from workloads.gpu_memory_health import ecc_samples, row_samples
from workloads.xid import in_log, kernel_log
gpu = gpus[1]
out["links"] = [sum(up for _, up in nvlinks(gpu)), min(speed_gb_s(gpu, link) for link, up in nvlinks(gpu) if up)]
out["fabric"], out["recovery"], out["bus"] = fabric_state(gpu), gpu.recovery_action(), gpu.pci_bus_id()
out["heat"] = [gpu.temperature_c(), gpu.memory_temperature_c(), gpu.slowdown_temperature_c()]
out["bad"] = sorted(s.metric + str(s.at.get("memory", "")) for s in ecc_samples(gpu) + row_samples(gpu) if s.value)
out["xids"] = in_log(kernel_log())
out["same"] = [driver.uuid(n) == each.uuid() for n, each in enumerate(gpus)]
out["peer"] = driver.can_access_peer(0, 1)
"""


def test_health_is_told_as_the_hardware_has_it(container: Container) -> None:
    assert container.run(HEALTH) == {
        "links": [4, 25.0],
        "fabric": ["completed", 0],
        "recovery": "none",
        "bus": "00000000:2B:00.0",
        "heat": [34, 34, 87],
        "bad": [],
        "xids": [],
        "same": [True, True],
        "peer": True,
    }
    container.node.change(
        1,
        nvlinks_down=2,
        fabric_state=2,
        recovery_action=1,
        sram_uncorrected=1,
        ecc_corrected=5,
        remap_pending=True,
        retired_double=3,
        xid=63,
        unreachable_peers=(0,),
    )
    changed = container.run(HEALTH)
    assert changed["links"][0] == 2
    assert (changed["fabric"], changed["recovery"], changed["peer"]) == (["in progress", 0], "reset the GPU", False)
    assert set(changed["bad"]) == {"ecc_uncorrectedsram", "ecc_correcteddram", "rows_pending", "retired_pages"}
    assert changed["xids"] == [["0000:2b:00", 63]]


@pytest.mark.parametrize("code", [100, 802, 803, 804, 999])
def test_a_driver_that_does_not_initialise_gives_its_own_code(container: Container, code: int) -> None:
    container.node.init_error = code
    container.node.publish()
    program = f"""
from workloads.cuda_driver import CudaError, Driver
from workloads.cuda_errors import explained
try:
    Driver()
except CudaError as error:
    assert (error.code, error.name.startswith("CUDA_ERROR_")) == ({code}, True)
    assert explained(str(error), error.code) != str(error)
    out = error.code
"""
    assert container.run(program, prelude="import json\n") == code


WORKLOADS = """
import os
os.environ["GPUPROOF_PARAMS"] = json.dumps({"iterations": 100, "copies": 1, "copy_mib": 1, "wait_s": 0.1,
                                            "idle_s": 0.05, "load_s": 0.1})
from workloads import gpu_health, gpu_load
for program in (gpu_health, gpu_load):
    found = program.measure()
    out |= {"facts": {**out.get("facts", {}), **found.facts}}
    out |= {sample.metric: sample.value for sample in found.samples if sample.at["gpu"] == 1} | out
"""
XID_95 = "gpu 1: XID 95: uncontained memory error: other programs may be affected; drain the node and reset the GPU"


def test_the_programs_report_a_sound_node_as_sound(container: Container) -> None:
    seen = container.run(WORKLOADS)
    facts = seen["facts"]
    assert {name: fact for name, fact in facts.items() if name.startswith("xid")} == {
        "xid_before": ["none"],
        "xid_during": ["none"],
        "xid_of_applications": ["none"],
    }
    assert (facts["nvml_error"], facts["work_error"], facts["load_error"]) == ("none", "none", ["none"])
    assert (facts["ecc_enabled"], facts["recovery_action"]) == ([True, True], ["none", "none"])
    assert facts["load_attributed"] == [True, True]
    assert (seen["pcie_width"], seen["pcie_generation"], seen["nvlinks_up"], seen["nvlink_speed"]) == (16, 5, 4, 25)
    assert "retired_pages" not in seen


def test_an_old_xid_is_told_from_one_that_came_while_the_gpu_worked(container: Container) -> None:
    container.node.change(0, xid=79)
    container.node.change(1, xid_at_load=95, pcie_width=8)
    seen = container.run(WORKLOADS)
    assert [text[:13] for text in seen["facts"]["xid_before"]] == ["gpu 0: XID 79"]
    assert seen["facts"]["xid_during"] == [XID_95]
    assert seen["pcie_width"] == 8


def test_a_gpu_off_the_bus_is_an_error_of_nvml_and_no_silence(container: Container) -> None:
    container.node.change(1, lost=True)
    facts = container.run(WORKLOADS, prelude="import json\nout = {}\n")["facts"]
    assert "GPU is lost" in facts["nvml_error"]
    assert facts["load_error"] != ["none"]
    assert "xid_during" not in facts
