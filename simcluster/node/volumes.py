"""A pod's volumes as directories on the node, ready to be bind-mounted (or used directly by light containers).

Owns each kind's content and error words (golden 12). It must not know containers but for their mounts.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcluster.api.port import Client, Object
from simcluster.node.claims import Claims
from simcluster.node.sources import PodFacts, SourceMissingError, field, keyed_object, resource


class MountError(Exception):
    """A volume cannot be set up; the text is the message of the FailedMount event."""


@dataclass(frozen=True)
class NodeStorage:
    """Where things lie: `pod` this pod's volumes, `claims` the claims' volumes, `host` what hostPath may see."""

    pod: Path
    claims: Claims
    host: Path


class VolumeBuilder:
    """Sets up the volumes of one pod."""

    def __init__(self, client: Client, facts: PodFacts, storage: NodeStorage) -> None:
        self._client = client
        self._facts = facts
        self._storage = storage
        self._namespace: str = facts.pod["metadata"]["namespace"]

    async def build(self) -> dict[str, Path]:
        """Every volume's directory (or file) by name; `MountError` where one cannot be set up yet."""
        places: dict[str, Path] = {}
        for volume in self._facts.pod["spec"].get("volumes") or []:
            try:
                places[volume["name"]] = await self._one(volume)
            except SourceMissingError as missing:
                raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}') from missing
        return places

    async def _one(self, volume: Object) -> Path:
        place = self._storage.pod / str(volume["name"])
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            return await self._claim(volume["persistentVolumeClaim"]["claimName"])
        place.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume or len(volume) == 1:
            place.chmod(0o777)
            return place
        files, mode = await self._files(volume)
        _write(place, files, mode)
        return place

    async def _files(self, volume: Object) -> tuple[dict[str, tuple[bytes, int | None]], int]:
        if "configMap" in volume:
            source = volume["configMap"]
            return await self._keyed("configmap", source.get("name", ""), source), source.get("defaultMode", 0o644)
        if "secret" in volume:
            source = volume["secret"]
            return await self._keyed("secret", source.get("secretName", ""), source), source.get("defaultMode", 0o644)
        if "downwardAPI" in volume:
            return self._downward(volume["downwardAPI"]), volume["downwardAPI"].get("defaultMode", 0o644)
        if "projected" in volume:
            return await self._projected(volume["projected"]), volume["projected"].get("defaultMode", 0o644)
        kinds = ", ".join(key for key in volume if key != "name")
        raise SourceMissingError(f"volume type {kinds} is not offered by the simulated cluster")

    async def _keyed(self, kind: str, name: str, source: Mapping[str, Any]) -> dict[str, tuple[bytes, int | None]]:
        data = await keyed_object(self._client, kind, self._namespace, name)
        if data is None:
            if source.get("optional"):
                return {}
            raise SourceMissingError(f'{kind} "{name}" not found')
        items = source.get("items")
        if not items:
            return {key: (value, None) for key, value in data.items()}
        chosen: dict[str, tuple[bytes, int | None]] = {}
        for item in items:
            if item["key"] in data:
                chosen[item["path"]] = (data[item["key"]], item.get("mode"))
            elif not source.get("optional"):
                shown = "configmap" if kind == "configmap" else "secret"
                raise SourceMissingError(f"{shown} references non-existent {shown} key: {item['key']}")
        return chosen

    def _downward(self, source: Mapping[str, Any]) -> dict[str, tuple[bytes, int | None]]:
        files: dict[str, tuple[bytes, int | None]] = {}
        for item in source.get("items") or []:
            if "fieldRef" in item:
                text = field(self._facts, item["fieldRef"]["fieldPath"])
            else:
                text = resource(self._facts, item["resourceFieldRef"], {})
            files[item["path"]] = (text.encode(), item.get("mode"))
        return files

    async def _projected(self, source: Mapping[str, Any]) -> dict[str, tuple[bytes, int | None]]:
        files: dict[str, tuple[bytes, int | None]] = {}
        for part in source.get("sources") or []:
            if "configMap" in part:
                files |= await self._keyed("configmap", part["configMap"].get("name", ""), part["configMap"])
            elif "secret" in part:
                files |= await self._keyed("secret", part["secret"].get("name", ""), part["secret"])
            elif "downwardAPI" in part:
                files |= self._downward(part["downwardAPI"])
        return files

    def _host_path(self, source: Mapping[str, Any]) -> Path:
        wanted, kind = str(source["path"]), source.get("type", "")
        place = (self._storage.host / wanted.lstrip("/")).resolve()
        if not place.is_relative_to(self._storage.host.resolve()):
            raise SourceMissingError(f"hostPath type check failed: {wanted} is not on this node")
        if kind in ("DirectoryOrCreate", ""):
            place.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        elif kind == "Directory" and not place.is_dir():
            raise SourceMissingError(f"hostPath type check failed: {wanted} is not a directory")
        elif kind == "File" and not place.is_file():
            raise SourceMissingError(f"hostPath type check failed: {wanted} is not a file")
        return place

    async def _claim(self, name: str) -> Path:
        return await self._storage.claims.place(self._namespace, name)


def _write(place: Path, files: Mapping[str, tuple[bytes, int | None]], mode: int) -> None:
    """Fill the directory as a kubelet does: a hidden directory of data and links to it."""
    data = place / "..data-1"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    for path, (content, own_mode) in files.items():
        target = (data / path).resolve()
        if not target.is_relative_to(data.resolve()):
            raise SourceMissingError(f"invalid path {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(own_mode if own_mode is not None else mode)
    link = place / "..data"
    if not link.is_symlink():
        link.symlink_to("..data-1")
    for path in files:
        first = path.split("/", 1)[0]
        if not (place / first).is_symlink():
            (place / first).symlink_to(f"..data/{first}")
