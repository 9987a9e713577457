"""Where the data of claims lies: a file system of its own a volume, as large as it was asked to be.

Owns these file systems, their behaviour and what containers that mount one need for it. It must not know pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simcluster.api.informer import Informer
from simcluster.api.port import ApiError, Client, Object
from simcluster.api.quantities import parse
from simcluster.hardware.storage import SettingError, Settings, from_parameters
from simcluster.node import syscalls
from simcluster.node.sources import SourceMissingError

_LIBRARY = "/opt/simcluster/lib/libsimstorage.so"
_VIEW = "/run/simcluster/volumes"
EVERY_NODE = "*"
_log = logging.getLogger(__name__)
Bind = tuple[str, str, bool]


@dataclass
class Volume:
    """One volume: `data` is its file system's mount point, `control` what its users' shims share."""

    name: str
    storage_class: str
    data: Path
    control: Path
    settings: Settings
    views: dict[Path, tuple[str, str, str]] = field(default_factory=dict)
    """Settings files that show it, with the mount, the control directory and the node they name."""


class Claims:
    """The volumes of all claims of the cluster."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._volumes: dict[str, Volume] = {}
        self._troubles: dict[tuple[str, str], dict[str, Any]] = {}
        """By storage class and node (`EVERY_NODE`: all of them)."""
        self._informer = Informer(client, "persistentvolumes")
        self.armed = False
        """Faults may strike volumes later: prepare every container that mounts one."""

    async def start(self) -> None:
        """Begin to notice volumes that are deleted."""
        self._informer.on_change(self._on_volume)
        await self._informer.start()

    async def stop(self) -> None:
        """Stop noticing."""
        await self._informer.stop()

    async def place(self, namespace: str, claim: str, node: str = "") -> Path:
        """Where a claim's data lies. Raises `SourceMissingError` where it is absent, has no volume or is refused."""
        try:
            found = await self._client.get("persistentvolumeclaims", claim, namespace)
        except ApiError as error:
            raise SourceMissingError(f'persistentvolumeclaim "{claim}" not found') from error
        name = (found.get("spec") or {}).get("volumeName") or f"unbound-{namespace}-{claim}"
        if name not in self._volumes:
            settings = await self._settings(found)
            # The volume's size, where it has one: a provisioner may give less than was asked for.
            asked = (found["spec"].get("resources") or {}).get("requests") or {}
            size = ((found.get("status") or {}).get("capacity") or asked).get("storage", "0")
            # Asked again: another pod may have come first while the class was read.
            if name not in self._volumes:
                self._make(name, found["spec"].get("storageClassName") or "", settings, int(parse(size)))
        if self._settings_on(self._volumes[name], node).no_attach:
            raise SourceMissingError(
                f'Multi-Attach error for volume "{name}" Volume is already exclusively attached to one node and can\'t '
                "be attached to another"
            )
        return self._volumes[name].data

    def _settings_on(self, volume: Volume, node: str) -> Settings:
        values = self._troubles.get((volume.storage_class, node), {})
        return volume.settings.with_values({**values, "apart": True}) if values else volume.settings

    async def _settings(self, claim: Object) -> Settings:
        parameters: Mapping[str, str] = {}
        if name := claim["spec"].get("storageClassName"):
            with contextlib.suppress(ApiError):
                parameters = (await self._client.get("storageclasses.storage.k8s.io", name)).get("parameters") or {}
        try:
            return from_parameters(parameters, claim["metadata"].get("annotations") or {})
        except SettingError as error:
            raise SourceMissingError(str(error)) from error

    def _make(self, name: str, storage_class: str, settings: Settings, size: int) -> None:
        data, control = self._directory / name / "data", self._directory / name / "control"
        for place in (data, control):
            place.mkdir(parents=True, exist_ok=True)
        syscalls.mount("tmpfs", str(data), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode=777,size={size}")
        for place in (data, control):
            place.chmod(0o777)
        settings = settings.with_values(self._troubles.get((storage_class, EVERY_NODE), {}))
        self._volumes[name] = Volume(name, storage_class, data, control, settings)

    def _on_volume(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and (there := self._volumes.get(after["metadata"]["name"])):
            sizes = [int(parse(each["spec"]["capacity"]["storage"])) for each in (before, after)]
            if sizes[1] > sizes[0]:
                flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_REMOUNT
                syscalls.mount("tmpfs", str(there.data), "tmpfs", flags, f"size={sizes[1]}")
        if after is None and before is not None:
            volume = self._volumes.pop(before["metadata"]["name"], None)
            if volume is not None:
                with contextlib.suppress(OSError):
                    syscalls.unmount(str(volume.data))
                asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, volume.data.parent, True)

    def trouble(self, storage_class: str, values: Mapping[str, Any], node: str = EVERY_NODE) -> None:
        """Change how all volumes of a class behave, on every node or on one, those in use at once."""
        self._troubles.setdefault((storage_class, node), {}).update(values)
        for volume in self._volumes.values():
            if volume.storage_class == storage_class:
                if node == EVERY_NODE:
                    volume.settings = volume.settings.with_values(values)
                for view in list(volume.views):
                    self._publish(view)

    def equip(self, mounts: Sequence[Bind], view: Path, node: str, variables: dict[str, str]) -> list[Bind]:
        """What a container needs besides its mounts (source, target, read-only) for volumes that are not harmless."""
        used = []
        for source, target, _ in mounts:
            volume = next((each for each in self._volumes.values() if Path(source).is_relative_to(each.data)), None)
            if volume is not None and (self.armed or not volume.settings.harmless):
                used.append((volume, target))
        if not used:
            return []
        binds: list[Bind] = [(str(view), _VIEW, True)]
        for number, (volume, target) in enumerate(used):
            control = f"/run/simcluster/volume-{number}"
            volume.views[view] = (target, control, node)
            binds.append((str(volume.control), control, False))
        self._publish(view)
        variables["SIMCLUSTER_VOLUMES"] = _VIEW
        variables["LD_PRELOAD"] = " ".join(part for part in (_LIBRARY, variables.get("LD_PRELOAD", "")) if part)
        return binds

    def _publish(self, view: Path) -> None:
        shown = [(each, each.views[view]) for each in self._volumes.values() if view in each.views]
        lines = [self._settings_on(volume, place[2]).line(*place) for volume, place in shown]
        mode = "r+" if view.exists() else "w"
        # In place, since containers have the file itself mounted.
        with view.open(mode, encoding="utf-8") as file:
            file.write("".join(lines))
            file.truncate()

    def forget(self, view: Path) -> None:
        """The container is gone."""
        for volume in self._volumes.values():
            volume.views.pop(view, None)
