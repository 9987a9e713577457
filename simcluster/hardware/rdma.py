"""The RDMA adapters of one node: identity, port state, and the /sys/class/infiniband tree that a container sees.

Owns the adapters' view of themselves. It must not know pods, nor who moves the bytes: it is told what each link counts.
Layout: kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband; counters in 4-byte words for data.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from simcluster.topology import Rdma

_NAMESPACE = uuid.UUID("0b9e3a1c-7d54-4a52-8f0e-7a1f53a0d9c1")
_SPEEDS = {800: "4X XDR", 400: "4X NDR", 200: "4X HDR", 100: "4X EDR", 56: "4X FDR", 40: "4X QDR"}
_ZERO_COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
)
_HARDWARE_COUNTERS = (
    "duplicate_request",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
)


@dataclass(frozen=True)
class Adapter:
    """One adapter with one port. `mbit` is what its link is shaped to, `gbps` what the port claims."""

    index: int
    name: str
    guid: str
    lid: int
    mbit: int
    gbps: int
    active: bool = True
    waits_for_manager: bool = False
    """The link is up and no subnet manager has made the port ACTIVE: it stays in INIT, without a LID."""
    mtu: int = 4096
    link_local_only: bool = False
    """Its GID table has no entry of the interface's address."""
    address: str = ""
    """The address that its interface in a pod gets; "" for one of its own."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Error counters that are not 0, by file name."""
    errors_per_mib: Mapping[str, float] = field(default_factory=dict)
    """What the hardware counts besides, by file name, for each 2**20 bytes that have really passed it."""
    rail: int | None = None
    """The rail that its cable leads to; None for the one of its own number."""

    @property
    def cabled_to(self) -> int:
        """The rail's number."""
        return self.index if self.rail is None else self.rail


@dataclass(frozen=True)
class Attachment:
    """An adapter in a pod: its interface there, the address of that, and the link's name on the simulator's side."""

    adapter: str
    interface: str
    address: str
    link: str


@dataclass
class RdmaTroubles:
    """What is wrong with how a node hands out its adapters, set by faults. The defaults are a healthy node."""

    hides: bool = False
    """Granted adapters do not appear in the container."""
    stray: str = ""
    """An adapter of another network, which whoever is granted any adapter gets too."""
    no_verbs_files: bool = False
    """The container gets device files, and not those that open an adapter."""
    leaks: Literal["", "files", "adapters"] = ""
    """Containers that asked for none get the device files, or everything."""
    locked_kib: int | None = None
    """The runtime drops CAP_IPC_LOCK, and a process may pin only so much."""


class NodeRdma:
    """All adapters of a node, and the trees that containers have mounted."""

    def __init__(self, node: str, model: Rdma) -> None:
        self.model = model
        self.troubles = RdmaTroubles()
        self._node = node
        self.adapters: dict[str, Adapter] = {}
        for index in range(model.devices):
            self._plug_in(index)
        self._trees: dict[Path, tuple[Attachment, ...]] = {}

    def _plug_in(self, index: int) -> None:
        identity = uuid.uuid5(_NAMESPACE, f"{self._node}/{index}").hex
        name = f"mlx5_{index}"
        guid = ":".join(identity[start : start + 4] for start in range(0, 16, 4))
        lid = 1 + int(identity[:4], 16) % 0xBFFE
        self.adapters[name] = Adapter(index, name, guid, lid, self.model.mbit, self.model.gbps)

    def plug_in_stray(self) -> None:
        """One adapter more than the device plugin offers, handed out with the others all the same."""
        self._plug_in(len(self.adapters))
        self.troubles.stray = list(self.adapters)[-1]

    def units(self) -> dict[str, list[str]]:
        """What the device plugin offers."""
        if self.model.shared:
            return {self.model.resource: [f"shared::{number}" for number in range(self.model.count)]}
        return {self.model.resource: list(self.adapters)}

    def granted(self, units: Sequence[str]) -> list[str]:
        """The adapters behind granted units: all of them behind a shared one."""
        if any(unit.startswith("shared::") for unit in units):
            return list(self.adapters)
        found = [unit for unit in units if unit in self.adapters]
        return [*found, self.troubles.stray] if found and self.troubles.stray else found

    def show(self, directory: Path, attached: Sequence[Attachment]) -> None:
        """Make a container's tree at `directory` and keep it up to date until `hide`."""
        self._trees[directory] = tuple(attached)
        for each in attached:
            self._write(directory / each.adapter, self.adapters[each.adapter], each)

    def hide(self, directory: Path) -> None:
        """The container is gone."""
        self._trees.pop(directory, None)

    def change(self, name: str, **values: object) -> None:
        """Alter an adapter and tell the containers that see it."""
        self.adapters[name] = replace(self.adapters[name], **values)  # type: ignore[arg-type]
        for directory, attached in self._trees.items():
            for each in attached:
                if each.adapter == name:
                    self._write(directory / name, self.adapters[name], each)

    def count(self, link: str, sent: tuple[int, int], received: tuple[int, int]) -> None:
        """What has passed a link, seen from its pod: (bytes, packets) each way."""
        for directory, attached in self._trees.items():
            for each in attached:
                if each.link == link:
                    counters = directory / each.adapter / "ports" / "1" / "counters"
                    _put(counters / "port_xmit_data", str(sent[0] // 4))
                    _put(counters / "port_rcv_data", str(received[0] // 4))
                    for name, value in (("xmit", sent[1]), ("rcv", received[1])):
                        _put(counters / f"port_{name}_packets", str(value))
                        _put(counters / f"unicast_{name}_packets", str(value))
                    self._count_errors(counters, self.adapters[each.adapter], sent[0] + received[0])

    def _count_errors(self, counters: Path, adapter: Adapter, passed_bytes: int) -> None:
        for name, each_mib in adapter.errors_per_mib.items():
            _put(counters / name, str(adapter.counters.get(name, 0) + int(each_mib * passed_bytes / (1 << 20))))

    def attached(self) -> list[Attachment]:
        """Every adapter that some pod holds."""
        return list({each.link: each for attached in self._trees.values() for each in attached}.values())

    def links(self) -> set[str]:
        """The links that somebody sees the counters of."""
        return {each.link for attached in self._trees.values() for each in attached}

    def _write(self, place: Path, adapter: Adapter, attached: Attachment) -> None:
        infiniband = self.model.link_layer == "InfiniBand"
        files = {
            "node_type": "1: CA",
            "fw_ver": "28.39.1002",
            "hca_type": "MT4129",
            "hw_rev": "0x0",
            "board_id": "SIM0000000001",
            "node_guid": adapter.guid,
            "sys_image_guid": adapter.guid,
            "node_desc": f"{adapter.name} (simulated)",
            "active_mtu": str(adapter.mtu),
            "device/vendor": "0x15b3",
            "device/device": "0x1021",
            f"device/net/{attached.interface}/address": "",
        }
        active, managed = adapter.active, adapter.active and not adapter.waits_for_manager
        port = {
            "state": _state(adapter),
            "phys_state": "5: LinkUp" if active else "3: Disabled",
            "rate": f"{adapter.gbps} Gb/sec ({_SPEEDS.get(adapter.gbps, '4X')})",
            "link_layer": self.model.link_layer,
            "lid": hex(adapter.lid if infiniband and managed else 0),
            "lid_mask_count": "0",
            "sm_lid": "0x1" if infiniband and managed else "0x0",
            "sm_sl": "0",
            "cap_mask": "0xa751e848" if infiniband else "0x00010000",
            "pkeys/0": "0xffff",
        }
        for index, (gid, kind) in enumerate(_gids(adapter, attached.address, infiniband=infiniband)):
            port[f"gids/{index}"] = gid
            port[f"gid_attrs/types/{index}"] = kind
            port[f"gid_attrs/ndevs/{index}"] = attached.interface
        port |= {f"counters/{name}": str(adapter.counters.get(name, 0)) for name in _ZERO_COUNTERS}
        port |= {f"hw_counters/{name}": str(adapter.counters.get(name, 0)) for name in _HARDWARE_COUNTERS}
        for path, text in {**files, **{f"ports/1/{path}": text for path, text in port.items()}}.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            _put(place / path, text)
        for name in ("xmit_data", "rcv_data", "xmit_packets", "rcv_packets"):
            counter = place / "ports/1/counters" / f"port_{name}"
            if not counter.exists():
                _put(counter, "0")


def _gids(adapter: Adapter, address: str, *, infiniband: bool) -> list[tuple[str, str]]:
    """Link-local from the GUID, then the mapped IPv4 address, which even an InfiniBand port gets here."""
    link_local = f"fe80:0000:0000:0000:{adapter.guid}"
    parts = [int(part) for part in address.split(".")]
    mapped = f"0000:0000:0000:0000:0000:ffff:{parts[0]:02x}{parts[1]:02x}:{parts[2]:02x}{parts[3]:02x}"
    if infiniband:
        return [(link_local, "IB/RoCE v1"), (mapped, "IB/RoCE v1")]
    kinds = ("IB/RoCE v1", "RoCE v2")
    told = (link_local,) if adapter.link_local_only else (link_local, mapped)
    return [(gid, kind) for gid in told for kind in kinds]


def _state(adapter: Adapter) -> str:
    if not adapter.active:
        return "1: DOWN"
    return "2: INIT" if adapter.waits_for_manager else "4: ACTIVE"


def _put(place: Path, text: str) -> None:
    """In place, since containers have it mounted; in one write, so that nobody reads an empty counter meanwhile."""
    with place.open("r+b" if place.exists() else "wb", buffering=0) as file:
        file.write(text.encode("ascii") + b"\n")
        file.truncate()
