"""The metrics exporter of a running cluster: reached through the API, moved by real load, labelled by allocation."""

from __future__ import annotations

import re
from pathlib import Path

from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.tools import dcgm_exporter
from simcluster.node.load import loaded
from simcluster.topology import load
from tests.simcluster.node.cluster_process import Api, Namespace, RefusedError, wait_for

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
_LINE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")


def exporter_pod(api: Api, node: str) -> str:
    def ask() -> str | None:
        for pod in api.call("GET", "/api/v1/namespaces/gpu-operator/pods")["items"]:
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running":
                return str(pod["metadata"]["name"])
        return None

    return wait_for(ask, f"an exporter on {node}")


def scrape(api: Api, pod: str) -> str:
    try:
        return api.raw("GET", f"/api/v1/namespaces/gpu-operator/pods/{pod}:9400/proxy/metrics").decode()
    except RefusedError:
        return ""


def values(page: str, metric: str) -> list[tuple[dict[str, str], float]]:
    found = []
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is not None and match[1] == metric:
            found.append((dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3])))
    return found


def test_metrics_follow_the_load_of_the_pod_that_holds_the_gpu(ns: Namespace) -> None:
    exporter = exporter_pod(ns.api, "gpu-02")
    page = wait_for(lambda: scrape(ns.api, exporter), "the exporter answers")
    idle = values(page, "DCGM_FI_DEV_POWER_USAGE")
    assert [labels["gpu"] for labels, _ in idle] == ["0", "1"]
    assert all("pod" not in labels for labels, _ in idle)
    burn = "x = 0\nwhile True: x += 1"
    ns.pod("burn", {"command": ["python3", "-c", burn], **GPU}, nodeName="gpu-02")

    def busy() -> list[tuple[dict[str, str], float]]:
        found = values(scrape(ns.api, exporter), "DCGM_FI_DEV_GPU_UTIL")
        return found if any(value > 20 for _, value in found) else []

    utilisation = wait_for(busy, "the load shows")
    held = [labels for labels, _ in utilisation if "pod" in labels]
    assert [(labels["pod"], labels["namespace"], labels["container"]) for labels in held] == [("burn", ns.name, "c")]
    assert all(value == 0 for labels, value in utilisation if "pod" not in labels)
    later = scrape(ns.api, exporter)
    power = {labels["UUID"]: value for labels, value in values(later, "DCGM_FI_DEV_POWER_USAGE")}
    assert power[held[0]["UUID"]] > 2 * {labels["UUID"]: value for labels, value in idle}[held[0]["UUID"]]
    energy = {labels["UUID"]: v for labels, v in values(later, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")}
    before = {labels["UUID"]: v for labels, v in values(page, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")}
    assert all(energy[uuid] > before[uuid] for uuid in energy)
    ns.delete("burn", 0)
    wait_for(
        lambda: not [1 for labels, _ in values(scrape(ns.api, exporter), "DCGM_FI_DEV_GPU_UTIL") if "pod" in labels],
        "it goes",
    )


def page_of(gpus: NodeGpus, directory: Path, allocations: str = "") -> str:
    units = [unit for units in gpus.units().values() for unit in units]
    (directory / "state").write_text(gpus.render(units))
    (directory / "allocations").write_text(allocations)
    return dcgm_exporter.render(str(directory / "state"), str(directory / "allocations"), "n1")


def test_labels_stand_in_the_exporters_order(tmp_path: Path) -> None:
    model = load("mixed").pools[0].gpu
    assert model is not None
    gpus = NodeGpus.of("n1", model)
    uuid = gpus.gpus[0].uuid
    page = page_of(gpus, tmp_path, f"{uuid}\tns\tp\tmain\n")
    line = next(line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_GPU_TEMP{"))
    assert line == (
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="{uuid}",pci_bus_id="{gpus.gpus[0].pci_bus_id}",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",Hostname="n1",DCGM_FI_DRIVER_VERSION="550.107.02",'
        'container="main",namespace="ns",pod="p",pod_uid=""} 34'
    )
    assert page.startswith(
        "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
    )


def test_a_partitioned_gpu_reports_its_instances_and_no_utilisation(tmp_path: Path) -> None:
    model = load("shared").pools[0].gpu
    assert model is not None
    page = page_of(NodeGpus.of("n1", model), tmp_path)
    assert [labels["gpu"] for labels, _ in values(page, "DCGM_FI_DEV_GPU_UTIL")] == ["1"]
    engines = values(page, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert [labels["GPU_I_PROFILE"] for labels, _ in engines if "GPU_I_ID" in labels] == [
        "1g.10gb",
        "1g.10gb",
        "2g.20gb",
        "3g.40gb",
    ]


def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    gpus = NodeGpus.of("n1", load("small").pools[0].gpu)  # type: ignore[arg-type]
    gpus.change(0, errors=("power",), xid=79)
    gpus.change(1, lost=True)
    page = page_of(gpus, tmp_path)
    assert values(page, "DCGM_FI_DEV_POWER_USAGE") == []
    assert [value for _, value in values(page, "DCGM_FI_DEV_XID_ERRORS")] == [79]


def test_load_sets_power_heat_clock_and_reasons() -> None:
    gpu = NodeGpus.of("n1", load("small").pools[0].gpu).gpus[0]  # type: ignore[arg-type]
    idle, full = loaded(gpu, 0.0, 0.0, 1.0), loaded(gpu, 3.0, 200 << 20, 2.0)
    assert (idle.utilization, idle.throttle, full.utilization, full.throttle) == (0, 1, 100, 0)
    assert full.power_w > 5 * idle.power_w
    assert full.energy_mj == int(full.power_w * 2000)
    assert (full.used_mib, full.sm_clock_mhz) == (200, gpu.max_sm_clock_mhz)
    capped = loaded(NodeGpus.of("n1", load("small").pools[0].gpu).gpus[0], 1.0, 0.0, 1.0)  # type: ignore[arg-type]
    assert capped.temperature_c > idle.temperature_c
