"""RDMA workloads: what kernel texts mean, which port nobody can reach, and that no damaged text reads as a good one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from workloads import rdma_sysfs
from workloads.interface_addresses import mapped, own_gids
from workloads.rdma_attachment import facts
from workloads.rdma_none import usable
from workloads.rdma_sysfs import Port, ports, rate, state
from workloads.verbs import NoVerbsError, Use, Verbs

# The forms are those of the kernel's Documentation/ABI/stable/sysfs-class-infiniband and its show functions.
ETHERNET = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "Ethernet",
    "lid": "0x0",
    "gids/0": "fe80:0000:0000:0000:0a58:0aff:fe80:0005",
    "gid_attrs/types/0": "IB/RoCE v1",
    "gid_attrs/ndevs/0": "lo",
    "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
    "gids/2": "0000:0000:0000:0000:0000:ffff:7f00:0001",
    "gid_attrs/types/2": "IB/RoCE v1",
    "gid_attrs/ndevs/2": "lo",
    "gids/3": "0000:0000:0000:0000:0000:ffff:7f00:0001",
    "gid_attrs/types/3": "RoCE v2",
    "gid_attrs/ndevs/3": "lo",
}
INFINIBAND = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "200 Gb/sec (4X HDR)",
    "link_layer": "InfiniBand",
    "lid": "0x1a",
    "gids/0": "fe80:0000:0000:0000:a088:c203:0012:3456",
    "gid_attrs/types/0": "IB/RoCE v1",
}
EFA = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Unspecified"}


def told(root: Path, files: Mapping[str, str], device: str = "mlx5_0") -> list[Port]:
    for name, text in files.items():
        file = root / device / "ports" / "1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="ascii")
    return ports(device, str(root))


@pytest.mark.parametrize(
    ("files", "change", "fact", "said"),
    [
        (ETHERNET, {}, "ports_unaddressed", "none"),
        (ETHERNET, {}, "gid_index", "3"),
        (ETHERNET, {}, "link_layer", "Ethernet"),
        (ETHERNET, {"gids/3": ETHERNET["gids/0"]}, "ports_unaddressed", "mlx5_0 port 1: link-local GIDs only"),
        (
            ETHERNET,
            {"gids/3": mapped("192.0.2.7")},
            "ports_unaddressed",
            "mlx5_0 port 1: RoCE v2 GIDs of other addresses only",
        ),
        (ETHERNET, {"gid_attrs/types/3": "IB/RoCE v1"}, "ports_unaddressed", "mlx5_0 port 1: link-local GIDs only"),
        (ETHERNET, {"gids/0": ""}, "ports_unaddressed", "mlx5_0 port 1: no GID"),
        (INFINIBAND, {}, "ports_unaddressed", "none"),
        (INFINIBAND, {"lid": "0x0"}, "ports_unaddressed", "mlx5_0 port 1: no LID"),
        (INFINIBAND, {"lid": "0xffff"}, "ports_unaddressed", "mlx5_0 port 1: no LID"),
        (EFA, {}, "ports_unaddressed", "none"),
        (EFA, {}, "link_layer", "Unspecified"),
        (INFINIBAND, {}, "ports_not_active", "none"),
        (
            INFINIBAND,
            {"state": "2: INIT"},
            "ports_not_active",
            "mlx5_0 port 1: INIT, LinkUp (the link is up, and no subnet manager has made the port active)",
        ),
        (INFINIBAND, {"state": ""}, "ports_not_active", "mlx5_0 port 1: (no state), LinkUp"),
        (INFINIBAND, {"phys_state": "2: Polling"}, "ports_not_active", "mlx5_0 port 1: ACTIVE, Polling"),
        (INFINIBAND, {"link_layer": ""}, "link_layer", "(not told)"),
    ],
    ids=lambda value: value.replace(":", "") if isinstance(value, str) else None,
)
def test_what_a_port_says(
    tmp_path: Path, files: Mapping[str, str], change: Mapping[str, str], fact: str, said: str
) -> None:
    assert facts(told(tmp_path, {**files, **change}), {})[fact] == said


def test_an_adapter_that_cannot_be_used_is_named_with_its_step_and_the_memlock() -> None:
    used = {"mlx5_0": Use("", 4096), "mlx5_1": Use("register 64 MiB of memory: Cannot allocate memory", 1024)}
    found = facts([], used)
    assert str(found["rdma_unusable"]).startswith("mlx5_1: register 64 MiB of memory: Cannot allocate memory (memlock ")
    assert found["rdma_mtu"] == "1024 and 4096"


def test_nothing_there_is_nothing(tmp_path: Path) -> None:
    assert rdma_sysfs.devices(str(tmp_path / "absent")) == []
    assert ports("mlx5_0", str(tmp_path)) == []
    with pytest.raises(NoVerbsError):
        Verbs("libgpuproof-absent.so.1")


def test_a_container_without_adapters_can_use_none() -> None:
    assert usable() == 0


def test_the_gids_of_an_interface_are_those_of_its_addresses() -> None:
    assert mapped("10.1.2.3") == "0000:0000:0000:0000:0000:ffff:0a01:0203"
    assert mapped("127.0.0.1") in own_gids("lo")
    assert own_gids("no-such-interface") == []


GOOD = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "lid": "0x1a"}
LETTERS = "0123456789 :xXabfACTIVEGb/sec()\n\t.-+eE\u0664\u00b2"


def damaged(text: str, chance: random.Random) -> str:
    """A text with one to four places changed, taken out, doubled or cut."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        text = chance.choice(
            (text[:at], text[at:], text[:at] + text[at + 1 :], text[:at] + chance.choice(LETTERS) + text[at:], text * 2)
        )
    return text


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_text_is_never_a_good_one(seed: int) -> None:
    chance = random.Random(seed)
    texts = {name: damaged(text, chance) for name, text in GOOD.items()}
    for name, text in texts.items():
        if text == GOOD[name]:
            continue
        assert name != "state" or state(text) != "ACTIVE" or text[1:] == GOOD["state"][1:]
        assert name != "rate" or rate(text) != 400 or text.startswith(("400 Gb/sec", "0"))
        number = rdma_sysfs.lid(text) if name == "lid" else None
        assert number is None or 0 < number < 0xC000
