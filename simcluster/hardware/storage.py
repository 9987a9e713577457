"""How a volume behaves: its rates, its credit, its faults, and the file in which containers' preloaded shim reads them.

Owns these settings and their names, as parameters of a StorageClass and annotations of a claim. It must not know pods.

Why a preloaded library and not FUSE: it needs no device node and no privilege that hosts commonly withhold, costs
nothing where a volume has no settings, and what it leaves alone stays the kernel's own POSIX semantics. Its price:
statically linked programs, memory maps and stdio's own transfers pass unhindered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PREFIX = "storage.simcluster.local/"


class SettingError(ValueError):
    """A parameter cannot be understood; the text names it."""


@dataclass(frozen=True)
class Settings:
    """Rates are bytes/s (0: as fast as memory), `burst_bytes` what an idle volume saves up.

    `hide_s`: a new file appears on other nodes so late. `lose_every`: each n-th written file is gone after a close that
    reported success. `stale`: every use gives ESTALE. `no_rename`: ENOTSUP; `no_lock`: ENOLCK; `full`: ENOSPC.
    `local_lock`: locks are granted by the node alone; `local_create`: so is O_EXCL of a file that another node made.
    `full_after_bytes`: a process gets ENOSPC after writing so much. `flip_every`: one bit of each n-th large read is
    wrong. `no_attach`: as if the volume were attached to another node. `apart`: this node does not share its rates.
    """

    read_bps: float = 0.0
    write_bps: float = 0.0
    burst_bytes: float = 0.0
    hide_s: float = 0.0
    lose_every: int = 0
    stale: bool = False
    no_rename: bool = False
    no_lock: bool = False
    local_lock: bool = False
    local_create: bool = False
    full: bool = False
    full_after_bytes: float = 0.0
    flip_every: int = 0
    no_attach: bool = False
    apart: bool = False

    @property
    def harmless(self) -> bool:
        """Nothing is set."""
        return self == Settings()

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """These settings with some replaced; unknown names are an error."""
        return replace(self, **values)

    def line(self, mount: str, control: str, node: str) -> str:
        """For the shim."""
        pairs: dict[str, object] = {"mount": mount, "control": control, "node": node}
        pairs |= {key: f"{value:g}" if isinstance(value, float) else int(value) for key, value in asdict(self).items()}
        return "\t".join(f"{key}={value}" for key, value in pairs.items()) + "\n"


_NAMES = {
    "read-mib-per-s": ("read_bps", 2.0**20),
    "write-mib-per-s": ("write_bps", 2.0**20),
    "burst-mib": ("burst_bytes", 2.0**20),
    "visible-after-s": ("hide_s", 1.0),
}
_SWITCHES = {
    "stale": "stale",
    "no-rename": "no_rename",
    "no-lock": "no_lock",
    "local-lock": "local_lock",
    "local-create": "local_create",
    "full": "full",
}


def from_parameters(parameters: Mapping[str, str], annotations: Mapping[str, str]) -> Settings:
    """From a class's parameters, overridden by a claim's annotations (with `PREFIX`). Raises `SettingError`."""
    merged = dict(parameters)
    merged |= {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    values: dict[str, Any] = {}
    for name, text in merged.items():
        try:
            if name in _NAMES:
                field, factor = _NAMES[name]
                values[field] = float(text) * factor
            elif name == "lose-every":
                values["lose_every"] = int(text)
            elif name in _SWITCHES:
                values[_SWITCHES[name]] = {"true": True, "false": False}[text]
        except (ValueError, KeyError) as error:
            raise SettingError(f"storage parameter {name}: {text!r} cannot be understood") from error
    return Settings(**values)
