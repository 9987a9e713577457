"""Stand-in for dcgm-exporter: serves /metrics of one node's GPUs on port 9400.

Owns the text format (order of labels and names of metrics as NVIDIA's dcgm-exporter renders them, values shaped as in
public scrapes of H100 and L40S nodes). It reads the hardware's state file and the kubelet's list of allocations, both
mounted from the node, once an interval (`DCGM_EXPORTER_INTERVAL`, milliseconds, as the real one), and answers from what
it read last. What is wrong with it is read from a third file: see `dcgm_troubles`. It must not import the simulator.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simcluster.hardware.tools.dcgm_troubles import SOUND, Troubles, read_troubles

PORT = 9400
STATE = "/host/gpu/gpus"
TROUBLES = "/host/gpu/exporter"
DEFAULT_INTERVAL_MS = 30000
ALLOCATIONS = "/var/lib/kubelet/pod-resources/allocations"
Row = dict[str, str]
_NOT_ON_MIG = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED")


def _key(key: str) -> Callable[[Row], str]:
    return lambda gpu: gpu[key]


def _always(value: str) -> Callable[[Row], str]:
    return lambda _: value


def _busy(share: float) -> Callable[[Row], str]:
    return lambda gpu: f"{int(gpu['utilization']) / 100 * share:.6f}"


# name, type, help, value, and the key of the state's `errors` that makes the value unreadable
METRICS: tuple[tuple[str, str, str, Callable[[Row], str], str], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", _key("sm_clock"), "clocks"),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", _key("mem_clock"), "clocks"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", _key("temperature"), "temperature"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", _key("temperature"), "temperature"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda gpu: f"{float(gpu['power']):.6f}", "power"),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        _key("energy"),
        "power",
    ),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", _key("pcie_replays"), ""),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", _key("utilization"), "utilization"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", _always("0"), "utilization"),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", _always("0"), ""),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", _always("0"), ""),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", _key("xid"), ""),
    (
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "Framebuffer memory free (in MiB).",
        lambda gpu: str(int(gpu["memory"]) - int(gpu["used"])),
        "memory",
    ),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", _key("used"), "memory"),
    (
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
        _key("remap_uncorrectable"),
        "ecc",
    ),
    (
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for correctable errors",
        _key("remap_correctable"),
        "ecc",
    ),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", _key("remap_failed"), "ecc"),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _always("0"), ""),
    (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "Ratio of time the graphics engine is active.",
        _busy(1.0),
        "utilization",
    ),
    (
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        _busy(0.6),
        "utilization",
    ),
    (
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        _busy(0.4),
        "utilization",
    ),
)


def read_rows(path: str) -> tuple[Row, list[Row], list[Row]]:
    """The node's line, the physical GPUs' lines and the MIG instances' lines of a state file."""
    node: Row = {}
    kinds: dict[str, list[Row]] = {"gpu": [], "parent": []}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - starts fast
        for line in file.read().splitlines():
            kind, *pairs = line.split("\t")
            values = dict(pair.split("=", 1) for pair in pairs)
            if kind == "node":
                node = values
            elif kind in kinds:
                kinds[kind].append(values)
    return (node, kinds["parent"], kinds["gpu"]) if kinds["parent"] else (node, kinds["gpu"], [])


def read_holders(path: str) -> dict[str, Row]:
    """Who holds which unit: the kubelet's list, a line each, as container, namespace and pod by unit."""
    holders: dict[str, Row] = {}
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - starts fast
            for line in file.read().splitlines():
                unit, namespace, pod, container = line.split("\t")
                holder = {"container": container, "namespace": namespace, "pod": pod, "pod_uid": ""}
                holders[unit] = holder
                # A time slice is attributed to its GPU: the exporter knows one holder a GPU.
                holders.setdefault(unit.partition("::")[0], holder)
    except OSError:
        pass
    return holders


@dataclass(frozen=True)
class Collected:
    """What one collection found: the node's line, GPUs, MIG instances, and all who are said to hold each unit."""

    node: Row
    gpus: list[Row]
    instances: list[Row]
    holders: dict[str, list[Row]]


class Collector:
    """Looks at the hardware once an interval; a hung one keeps what it saw last and goes on answering."""

    def __init__(self, state: str, allocations: str, troubles: str) -> None:
        self._state, self._allocations, self._troubles_file = state, allocations, troubles
        self._seen: dict[str, list[Row]] = {}
        self._last: Collected | None = None

    @property
    def troubles(self) -> Troubles:
        """What is wrong with the exporter now."""
        return read_troubles(self._troubles_file)

    def collect(self) -> None:
        """One look. Raises OSError where there is no state."""
        troubles = self.troubles
        if troubles.hung and self._last is not None:
            return
        holders = read_holders(self._allocations)
        for unit, holder in holders.items():
            known = self._seen.setdefault(unit, [])
            if holder not in known:
                known.append(holder)
        shown = {unit: [holder] for unit, holder in holders.items()}
        if troubles.mapping == "first":
            shown = {unit: known[:1] for unit, known in self._seen.items()}
        elif troubles.mapping == "kept":
            shown = {unit: [holders.get(unit, known[-1])] for unit, known in self._seen.items()}
        elif troubles.mapping == "remembered":
            shown = self._seen
        self._last = Collected(*read_rows(self._state), shown)

    def page(self, hostname: str) -> str:
        """The page as of the last look. Raises OSError where there has been none."""
        if self._last is None:
            self.collect()
        assert self._last is not None
        return rendered(self._last, hostname, self.troubles)

    def run(self, interval_s: float) -> None:
        """Collect for ever; a state that cannot be read leaves the last one."""
        while True:
            with contextlib.suppress(OSError):
                self.collect()
            time.sleep(interval_s)


def _labels(node: Row, gpu: Row, hostname: str, extra: Row) -> str:
    known = {
        "gpu": gpu["index"],
        "UUID": gpu["uuid"],
        "pci_bus_id": gpu["pci"],
        "device": f"nvidia{gpu['index']}",
        "modelName": gpu["product"],
        **{key: value for key, value in extra.items() if key.startswith("GPU_I_")},
        "Hostname": hostname,
        "DCGM_FI_DRIVER_VERSION": node.get("driver", ""),
        **{key: value for key, value in extra.items() if not key.startswith("GPU_I_")},
    }
    return ",".join(f'{key}="{value}"' for key, value in known.items())


def render(state: str, allocations: str, hostname: str) -> str:
    """The whole page of a sound exporter that looks now."""
    collector = Collector(state, allocations, "")
    return collector.page(hostname)


def rendered(seen: Collected, hostname: str, troubles: Troubles = SOUND) -> str:
    """The page of one collection."""
    lines: list[str] = []
    for name, kind, told, value, error in METRICS:
        if name in troubles.missing_fields:
            continue
        lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
        for shown, labels in _series(seen, hostname, troubles):
            gpu = seen.gpus[int(shown["index"]) ^ 1] if troubles.swapped and "profile" not in shown else shown
            split = gpu.get("mig") == "Enabled"
            unreadable = error and error in gpu.get("errors", "").split(",")
            if gpu.get("lost") == "1" or unreadable or (split and name in _NOT_ON_MIG):
                continue
            if "profile" in gpu and not name.startswith("DCGM_FI_PROF_"):
                continue
            lines.append(f"{name}{{{labels}}} {troubles.shown(name, value(gpu))}")
    return "\n".join(lines) + "\n"


def _series(seen: Collected, hostname: str, troubles: Troubles) -> Iterator[tuple[Row, str]]:
    for gpu in seen.gpus:
        if gpu["index"] != troubles.missing_gpu:
            for holder in _shown_holders(seen.holders.get(gpu["uuid"], []), troubles):
                yield gpu, _labels(seen.node, gpu, hostname, holder)
    for each in seen.instances:
        parent = seen.gpus[int(each["parent"])]
        for holder in _shown_holders(seen.holders.get(each["uuid"], []), troubles):
            extra = {"GPU_I_PROFILE": each["profile"], "GPU_I_ID": each["gi"], **holder}
            yield each, _labels(seen.node, parent, hostname, extra)


def _shown_holders(holders: list[Row], troubles: Troubles) -> list[Row]:
    """The pod labels of one unit's series: of nobody, of its holder, or of several where the exporter goes wrong."""
    if troubles.labels == "absent":
        return [{}]
    if troubles.labels == "empty":
        return [{"container": "", "namespace": "", "pod": "", "pod_uid": ""}]
    found = list(holders) or [{}]
    return [*found, {"hpc_job": ""}] if troubles.twice else found


def _answer(request: bytes, collector: Collector) -> bytes:
    path = request.split(b" ", 2)[1:2]
    troubles = collector.troubles
    if path == [b"/metrics"]:
        time.sleep(troubles.delay_s)
        try:
            body, status = collector.page(os.environ.get("NODE_NAME", socket.gethostname())), "200 OK"
        except OSError as error:
            body, status = f"Failed to collect metrics: {error}\n", "500 Internal Server Error"
        if troubles.fails:
            body, status = "Failed to collect metrics: context deadline exceeded\n", "500 Internal Server Error"
    elif path == [b"/health"]:
        body, status = "KO\n" if not os.path.exists(STATE) else "OK\n", "200 OK"  # noqa: PTH110 - starts fast
    else:
        return _framed(b"404 page not found\n", "404 Not Found")
    data = body.encode()
    if path == [b"/metrics"]:
        data = data[: len(data) // 2] if troubles.cut else data
        data += b"# %s\n" % (b"x" * 1021) * (troubles.extra_mib << 10)
    return _framed(data, status)


def _framed(data: bytes, status: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
    return head.encode() + f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


def _serve(client: socket.socket, collector: Collector) -> None:
    with client:
        client.settimeout(2.0)
        try:
            request = client.recv(65536)
            if request:
                answer = _answer(request, collector)
                client.settimeout(20.0)
                client.sendall(answer)
        except OSError:
            return


def _crash_in_time(collector: Collector) -> None:
    """An exporter that loses its host engine ends, as the real one does, and is started again."""
    began = time.monotonic()
    while True:
        limit_s = collector.troubles.crash_after_s
        if limit_s and time.monotonic() - began >= limit_s:
            sys.stderr.write("Host engine connection invalid/disconnected\n")
            os._exit(1)
        time.sleep(0.2)


def main() -> int:
    """Serve until killed."""
    collector = Collector(STATE, ALLOCATIONS, TROUBLES)
    interval_s = int(os.environ.get("DCGM_EXPORTER_INTERVAL") or DEFAULT_INTERVAL_MS) / 1000
    threading.Thread(target=collector.run, args=(interval_s,), daemon=True).start()
    threading.Thread(target=_crash_in_time, args=(collector,), daemon=True).start()
    with socket.create_server(("", PORT)) as listener:
        sys.stdout.write(f"Starting webserver on :{PORT}\n")
        sys.stdout.flush()
        while True:
            client, _ = listener.accept()
            # A thread each: a slow collection must not keep the health probe waiting.
            threading.Thread(target=_serve, args=(client, collector), daemon=True).start()
