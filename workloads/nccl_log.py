"""What NCCL's own log says: transports of channels in both directions, versions, errors with their cause in words.

Owns the reading of NCCL_DEBUG=INFO output. A known error is a reason; the absence of every known error is never a pass.
Forms of the lines: NCCL's user guide (docs.nvidia.com, "Troubleshooting") and public issue threads, named beside each.
Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

_NETWORK = re.compile(r"NCCL INFO (?:\S+ )?Using network (.+?)\s*$", re.MULTILINE)
_VERSION = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?)")
_CHANNEL = re.compile(r"\[(send|receive)\] via NET/([A-Za-z ]+?)/(\d+)(?:\([^)]*\))?((?:/[A-Za-z]+)*)")
_MAX_TEXT_BYTES = 8 << 20

CLASSES: Tuple[Tuple[str, str, str], ...] = (
    # (class, what the log shows, the cause in words)
    (
        "no_interface",  # NVIDIA/nccl#286: the interface that NCCL_SOCKET_IFNAME names is not in the container
        r"no socket interface found|Bootstrap : no socket interface",
        "NCCL finds no network interface to bootstrap over: NCCL_SOCKET_IFNAME names none that the pod has",
    ),
    (
        "ib_not_found",  # NVIDIA/nccl#352
        r"NET/IB : No device found",
        "NCCL sees no InfiniBand or RoCE device in the pod: the RDMA resource or /dev/infiniband is missing",
    ),
    (
        "memlock",  # NVIDIA/nccl user guide, troubleshooting, "Memory"
        r"ibv_(?:reg_mr|create_cq|create_qp)[^\n]*failed[^\n]*(?:Cannot allocate memory|error 12)",
        "memory cannot be registered with the adapter: the container's memlock limit is too low (IPC_LOCK, ulimit -l)",
    ),
    (
        "shared_memory",  # NVIDIA/nccl#525, #342: both wordings
        r"[Ee]rror while creating shared memory segment|failed to extend /dev/shm/nccl|posix_fallocate[^\n]*No space",
        "/dev/shm of the pod is too small: mount an emptyDir with medium Memory there",
    ),
    (
        "segment_attach",  # NVIDIA/nccl#1093: ranks of one node in containers that share no /dev/shm
        r"[Ee]rror while attaching to shared memory segment|shmOpen[^\n]*failed|Could not open shared memory",
        "a rank cannot attach another rank's shared memory segment: the ranks of a node do not share /dev/shm",
    ),
    (
        "gid_index",  # NCCL user guide, NCCL_IB_GID_INDEX
        r"ibv_modify_qp failed[^\n]*(?:Invalid argument|error 22|with 22)|No routable GID|ibv_query_gid[^\n]*failed",
        "the GID that NCCL chose cannot be used: set NCCL_IB_GID_INDEX to a RoCE v2 GID of the adapter's interface",
    ),
    (
        "version_drift",  # NVIDIA/nccl#1176, nccl-tests#231
        r"Message truncated : received \d+ bytes instead of \d+|Mismatched NCCL version|NCCL WARN Net : mismatch",
        "ranks run different builds of NCCL, or with different settings: use one image on all nodes",
    ),
    (
        "qp_timeout",  # NVIDIA/nccl#2013
        r"ibv_modify_qp failed with 110|Got completion[^\n]*(?:error 12|status=12|status 12)",
        "a queue pair cannot reach its peer: unconnected rails (NCCL_CROSS_NIC=0), a dead link, or a wrong GID",
    ),
    (
        "plugin_not_loaded",  # NVIDIA/nccl#1273
        r"NET/Plugin[^\n]*(?:[Cc]ould not find|[Ff]ailed to \w+|No plugin found)[^\n]*nccl-net[\w-]*\.so",
        "the network plug-in that the environment names is not in the image, or does not load there",
    ),
    (
        "p2p_disabled",  # NVIDIA/nccl#606
        r"P2P is disabled between connected GPUs|P2P (?:is )?[Dd]isabled|cudaDeviceCanAccessPeer[^\n]*returned 0",
        "GPUs of one node cannot reach each other directly (ACS, IOMMU, NCCL_P2P_DISABLE): data goes through the host",
    ),
    (
        "cuda",  # the driver API's own names
        r"CUDA (?:error|failure)|CUDA_ERROR_\w+|cudaError\w+",
        "a GPU refused a call: its own error stands beside this",
    ),
    (
        "address_in_use",
        r"[Aa]ddress already in use|EADDRINUSE",
        "the port of the rendezvous is taken on its host",
    ),
)
_COMPILED = tuple((name, re.compile(pattern), cause) for name, pattern, cause in CLASSES)
_QUEUE_PAIR = re.compile(
    r"on dev (?P<device>[\w.:]+)(?:.*?local GID index (?P<index>\d+))?(?:.*?local GID (?P<local>[0-9a-f:.]+))?"
    r"(?:.*?remote GID (?P<remote>[0-9a-f:.]+))?"
)


def classify(text: str) -> List[Dict[str, str]]:
    """Every known class in a text, once each: class, cause, the line that shows it, and device and GIDs where told."""
    found = []
    for name, pattern, cause in _COMPILED:
        match = pattern.search(text)
        if match is None:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        line = " ".join(text[start : end if end >= 0 else len(text)].split())
        entry = {"class": name, "cause": cause, "line": line[:400]}
        if name in ("qp_timeout", "gid_index"):
            parts = _QUEUE_PAIR.search(line)
            entry.update({key: value for key, value in (parts.groupdict() if parts else {}).items() if value})
        found.append(entry)
    return found


def read_transport(text: str) -> Dict[str, Any]:
    """Of one rank's log: networks, versions, and how many channels send and receive via which, with GDR or not."""
    ways: Dict[str, int] = {}
    for direction, network, _, suffix in _CHANNEL.findall(text):
        direct = "/GDRDMA" if "GDRDMA" in suffix else ""
        key = "%s NET/%s%s" % (direction, network.strip(), direct)
        ways[key] = ways.get(key, 0) + 1
    return {
        "networks": sorted({name.strip() for name in _NETWORK.findall(text)}),
        "versions": sorted(set(_VERSION.findall(text))),
        "ways": ways,
    }


def join(transports: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Several ranks' transports as one, with how many ranks were read and how many send or receive over each way."""
    networks = sorted({name for one in transports for name in one["networks"]})
    versions = sorted({name for one in transports for name in one["versions"]})
    ranks: Dict[str, int] = {}
    for one in transports:
        for way in one["ways"]:
            ranks[way] = ranks.get(way, 0) + 1
    return {"ranks": len(transports), "networks": networks, "versions": versions, "ranks_by_way": ranks}


def read_folder(folder: str) -> Optional[Dict[str, Any]]:
    """The joined transport of all logs that NCCL wrote into a folder, with error classes; None where it wrote none."""
    texts = []
    for path in sorted(Path(folder).glob("nccl-*")):
        with path.open("rb") as file:
            texts.append(file.read(_MAX_TEXT_BYTES).decode("utf-8", "replace"))
    if not texts:
        return None
    found = join([read_transport(text) for text in texts])
    errors = classify("\n".join(texts))
    if errors:
        found["errors"] = errors
    return found
