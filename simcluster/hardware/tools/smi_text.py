"""nvidia-smi's table, -L and topo -m.

Owns these layouts. It must not import the simulator.
"""

from __future__ import annotations

import os
import time

from simcluster.hardware.tools import ibsysfs
from simcluster.hardware.tools.smi_state import Row, State, partitioned, unreadable


def listing(state: State, gpus: list[Row]) -> str:
    """nvidia-smi -L, MIG devices under their GPU."""
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu['index']}: {gpu['product']} (UUID: {gpu['uuid']})")
        for each in _instances(state, gpu):
            label = f"MIG {each['profile']}"
            lines.append(f"  {label:<15} Device {each['device']:>2}: (UUID: {each['uuid']})")
    return "".join(f"{line}\n" for line in lines)


def _instances(state: State, gpu: Row) -> list[Row]:
    return [each for each in state.instances if each["parent"] == gpu["index"]]


_RULE = "+-----------------------------------------------------------------------------------------+"
_COLUMNS = "+-----------------------------------------+------------------------+----------------------+"
_MIG_COLUMNS = "+------------------+----------------------------------+-----------+-----------------------+"


def table(state: State, gpus: list[Row]) -> str:
    """nvidia-smi without arguments."""
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y") + "       ",
        _RULE,
        f"| NVIDIA-SMI {state.driver:<22} Driver Version: {state.driver:<14} CUDA Version: {state.cuda:<9}|",
        "|" + _COLUMNS[1:],
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for gpu in gpus:
        lines += [*_cells(gpu), _COLUMNS]
    lines += ["", *_mig_table(state, gpus)]
    lines += [
        _RULE,
        "| Processes:                                                                              |",
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        "|  No running processes found                                                             |",
        _RULE,
    ]
    return "\n".join(lines) + "\n"


def _cells(gpu: Row) -> list[str]:
    def shown(group: str, text: str) -> str:
        return "ERR!" if unreadable(gpu, group) else text

    draw = shown("power", f"{float(gpu['power']):.0f}W")
    power = f"{draw} / {float(gpu['power_limit']):>4.0f}W"
    usage = "N/A" if partitioned(gpu) else shown("utilization", gpu["utilization"] + "%")
    memory = shown("memory", f"{gpu['used']}MiB / {gpu['memory']:>6}MiB")
    ecc = "On" if partitioned(gpu) else shown("ecc", gpu["ecc_uncorrected"])
    heat = shown("temperature", f"{gpu['temperature']}C")
    fan, state = shown("fan", "N/A"), shown("clocks", "P0")
    name = gpu["product"][:28]
    return [
        f"| {gpu['index']:>3}  {name:<28}   On  |   {gpu['pci']} Off | {ecc:>20} |",
        f"| {fan:<4}{heat:>5} {state:>5} {power:>23} | {memory:>22} | {usage:>7} {'Default':>12} |",
        f"|{'':41}|{'':24}| {gpu['mig']:>20} |",
    ]


def _mig_table(state: State, gpus: list[Row]) -> list[str]:
    rows = [(gpu, each) for gpu in gpus for each in _instances(state, gpu)]
    if not rows:
        return []
    lines = [
        _RULE,
        "| MIG devices:                                                                            |",
        _MIG_COLUMNS,
        "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |",
        "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
        "|                  |                                  |        ECC|                       |",
        "|==================+==================================+===========+=======================|",
    ]
    for gpu, each in rows:
        memory = f"{each['used']}MiB / {each['memory']:>6}MiB"
        place = f"{gpu['index']:>3}  {each['gi']:>3}   0 {each['device']:>3} "
        lines += [f"|{place:<18}| {memory:>32} | {'':>3}     0 | {'':>21} |", _MIG_COLUMNS]
    return [*lines, ""]


def topology(gpus: list[Row]) -> str:
    """nvidia-smi topo -m: GPUs reach each other by their NVLinks, else by way of the host; an adapter shares a bridge
    with the GPU of its own number."""
    adapters = ibsysfs.devices()
    names = [*(f"GPU{gpu['index']}" for gpu in gpus), *(f"NIC{number}" for number in range(len(adapters)))]
    links = {f"GPU{gpu['index']}": int(gpu["links"]) - int(gpu["links_down"]).bit_count() for gpu in gpus}
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for own in names:
        cells = [" X " if other == own else _between(own, other, links) for other in names]
        tail = [cores, "0", "N/A"] if own.startswith("GPU") else ["", "", ""]
        lines.append("\t".join([own, *cells, *tail]))
    legend = (
        "Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the interconnect between NUMA nodes\n"
        "  PIX  = Connection traversing at most a single PCIe bridge\n"
        "  NV#  = Connection traversing a bonded set of # NVLinks"
    )
    nics = "".join(f"  NIC{number}: {name}\n" for number, name in enumerate(adapters))
    return "\n".join([*lines, "", legend]) + "\n" + (f"\nNIC Legend:\n\n{nics}" if nics else "")


def _between(one: str, other: str, links: dict[str, int]) -> str:
    if one in links and other in links:
        bonded = min(links[one], links[other])
        return f"NV{bonded}" if bonded else "SYS"
    return "PIX" if one[:3] != other[:3] and one[3:] == other[3:] else "SYS"
