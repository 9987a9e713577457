"""What the device plugins of one node offer, and which container holds which unit.

Owns allocation and the plugin's own idea of health, apart from the hardware's. It must not know what a unit is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class DevicePlugins:
    """Units by resource name. A unit that its plugin calls unhealthy stays in capacity and leaves allocatable."""

    def __init__(self, units: Mapping[str, Sequence[str]]) -> None:
        self.units = {resource: list(each) for resource, each in units.items()}
        self.unhealthy: set[str] = set()
        self.forgetful = False
        """Units that a container holds are handed out again, as after the loss of a kubelet's checkpoint."""
        self._granted: dict[tuple[str, str], dict[str, list[str]]] = {}

    def offer(self, resource: str, count: int) -> None:
        """From now on the plugin knows only the first `count` units."""
        self.units[resource] = self.units[resource][:count]

    def capacity(self) -> dict[str, str]:
        """Every unit."""
        return {resource: str(len(units)) for resource, units in self.units.items()}

    def allocatable(self) -> dict[str, str]:
        """Healthy units."""
        return {
            resource: str(sum(unit not in self.unhealthy for unit in units)) for resource, units in self.units.items()
        }

    def grant(self, uid: str, container: str, limits: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        """The units of a container of pod `uid` by resource, the same at each call; fewer where too few are free."""
        key = (uid, container)
        if key not in self._granted:
            taken = {unit for held in self._granted.values() for units in held.values() for unit in units}
            taken = set() if self.forgetful else taken
            granted: dict[str, list[str]] = {}
            for resource in self.units.keys() & limits.keys():
                free = [unit for unit in self.units[resource] if unit not in taken and unit not in self.unhealthy]
                granted[resource] = free[: int(str(limits[resource]))]
            if not granted:
                return {}
            self._granted[key] = granted
        return self._granted[key]

    def holders(self) -> dict[str, tuple[str, str]]:
        """(pod uid, container) by unit."""
        return {unit: key for key, granted in self._granted.items() for units in granted.values() for unit in units}

    def release(self, uid: str) -> None:
        """The pod has ended: its units are free at once."""
        for key in [key for key in self._granted if key[0] == uid]:
            del self._granted[key]
