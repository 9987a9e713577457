"""Which RDMA adapters does this pod have, can it use each of them, and are their ports fit for traffic?"""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional

from workloads import rdma_files, rdma_sysfs
from workloads.contract import Fact, Measurement, Sample, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.interface_addresses import ipv4, own_gids
from workloads.rdma_sysfs import LINK_LOCAL, ROCE_2, Gid, Port
from workloads.verbs import NoVerbsError, Use, Verbs

PARAMETERS = ("memory_mib",)
POD = {"gpus": "none", "rdma": True}
NONE = "none"
INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"
CAUSES = {
    "INIT": "the link is up, and no subnet manager has made the port active",
    "ARMED": "the subnet manager stopped half-way",
    "DOWN": "no link: cable, module, switch port, or the policy of a virtual function",
}


def measure() -> Measurement:
    """Look, and use every adapter there is."""
    memory_mib = int(parameters().get("memory_mib", 64))
    ports = [port for device in rdma_sysfs.devices() for port in rdma_sysfs.ports(device)]
    used = use_all(ports, memory_mib << 20)
    mine = [port for port in ports if port.device in used] or ports
    counts = {
        "sysfs": len(rdma_sysfs.devices()),
        "device files": len(rdma_files.openable()),
        "libibverbs": len(used),
        "queue pairs": sum(not one.failed for one in used.values()),
    }
    samples = [Sample("rdma_devices", float(count), "count", {"by": by}) for by, count in counts.items()]
    samples += [
        # A rate that cannot be read is no rate.
        Sample("port_rate", port.rate or 0.0, "Gb/s", {"device": port.device, "port": port.number})
        for port in mine
    ]
    return Measurement(
        "rdma_attachment",
        world_size=1,
        hosts=1,
        samples=tuple(samples),
        facts=facts(mine, used),
        environment={"rdma_files": " ".join(rdma_files.present()) or NONE},
        **identity(),
    )


def use_all(ports: List[Port], memory_bytes: int) -> Dict[str, Use]:
    """What came of using each adapter that libibverbs lists."""
    try:
        verbs = Verbs()
    except NoVerbsError as error:
        if ports or rdma_files.present():
            could_not("the pod has RDMA adapters and the image has no libibverbs (%s): add rdma-core to it" % error)
        return {}
    reliable = any(port.link_layer in (INFINIBAND, ETHERNET) for port in ports)
    return {name: verbs.use(handle, memory_bytes, reliable) for name, handle in verbs.devices().items()}


def facts(ports: List[Port], used: Dict[str, Use]) -> Dict[str, Fact]:
    """What is compared in words; `none` where there is nothing to complain of."""
    own = [gid for gid in map(own_gid, ports) if gid is not None]
    interfaces = sorted({interface for port in ports for interface in _interfaces(port)})
    return {
        "rdma_unusable": _listed(
            "%s: %s (memlock %s)" % (name, one.failed, rdma_files.memlock()) for name, one in used.items() if one.failed
        ),
        "ports_not_active": _listed(_not_active(port) for port in ports if not _is_active(port)),
        "ports_unaddressed": _listed(_unaddressed(port) for port in ports),
        "link_layer": _one_of(port.link_layer or "(not told)" for port in ports),
        "rdma_mtu": _one_of(str(one.mtu or "(not told)") for one in used.values()),
        "gid_index": _one_of(str(gid.place) for gid in own),
        "rdma_addresses": [address for interface in interfaces for address in ipv4(interface)],
        "rdma_interfaces": " ".join(interfaces) or NONE,
        "memlock": rdma_files.memlock(),
    }


def _is_active(port: Port) -> bool:
    return port.state == "ACTIVE" and port.physical == "LinkUp"


def _not_active(port: Port) -> str:
    why = CAUSES.get(port.state, "")
    shown = "%s port %d: %s, %s" % (port.device, port.number, port.state or "(no state)", port.physical or "(no state)")
    return "%s (%s)" % (shown, why) if why else shown


def _unaddressed(port: Port) -> str:
    """Why nobody could reach the port, '' where somebody could: each link layer has addresses of its own."""
    if port.link_layer == INFINIBAND and port.lid is None:
        return "%s port %d: no LID" % (port.device, port.number)
    if port.link_layer == ETHERNET and own_gid(port) is None:
        usable = [gid for gid in port.gids if gid.kind == ROCE_2 and not gid.gid.startswith(LINK_LOCAL)]
        what = "RoCE v2 GIDs of other addresses only" if usable else "link-local GIDs only" if port.gids else "no GID"
        return "%s port %d: %s" % (port.device, port.number, what)
    return ""


def own_gid(port: Port) -> Optional[Gid]:
    """The RoCE v2 entry of an address that the port's interface has in this pod."""
    for gid in port.gids:
        if gid.kind == ROCE_2 and not gid.gid.startswith(LINK_LOCAL) and gid.gid in own_gids(gid.interface):
            return gid
    return None


def _interfaces(port: Port) -> List[str]:
    return sorted({gid.interface for gid in port.gids if gid.interface})


def _listed(complaints: Iterable[str]) -> str:
    return "; ".join(one for one in complaints if one) or NONE


def _one_of(values: Iterable[str]) -> str:
    return " and ".join(sorted(set(values))) or NONE


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
