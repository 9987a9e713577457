"""A pod's volumes as directories on the node, ready to be bind-mounted (or used directly by light containers).

Owns each kind's content and error words (golden 12). It must not know containers but for their mounts.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcluster.api.port import ApiError, Client, Object
from simcluster.node.accounts import AccountTokens
from simcluster.node.claims import Claims
from simcluster.node.sources import PodFacts, SourceMissingError, field, keyed_object, resource

Content = dict[str, tuple[bytes, int | None]]
"""Files by path: content, and a mode of their own where they have one."""

CHANGEABLE = frozenset({"configMap", "secret", "downwardAPI", "projected"})
_TOKEN_S = 3600
_TOKEN_MODE = 0o644


class MountError(Exception):
    """A volume cannot be set up; the text is the message of the FailedMount event."""


@dataclass(frozen=True)
class NodeStorage:
    """
    Where things lie: `pod` this pod's volumes, `claims` the claims', `host` what hostPath may see of `node`.

    `scratch`, on a sick node, is where every emptyDir of one name is the same.
    """

    pod: Path
    claims: Claims
    host: Path
    node: str = ""
    scratch: Path | None = None


class VolumeBuilder:
    """Sets up the volumes of one pod."""

    def __init__(self, client: Client, facts: PodFacts, storage: NodeStorage, tokens: AccountTokens) -> None:
        self.facts = facts
        """May be replaced before a `refresh` by what is known of the pod by then."""
        self._client = client
        self._storage = storage
        self._tokens = tokens
        self._namespace: str = facts.pod["metadata"]["namespace"]
        self._written: dict[str, Content] = {}

    async def build(self) -> dict[str, Path]:
        """Every volume's directory (or file) by name; `MountError` where one cannot be set up yet."""
        places: dict[str, Path] = {}
        for volume in self.facts.pod["spec"].get("volumes") or []:
            try:
                places[volume["name"]] = await self._one(volume)
            except SourceMissingError as missing:
                raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}') from missing
        return places

    @property
    def changeable(self) -> bool:
        """Whether any volume shows something that may change while the pod runs."""
        return any(CHANGEABLE & volume.keys() for volume in self.facts.pod["spec"].get("volumes") or [])

    async def refresh(self) -> None:
        """Bring what may change up to date; a source that is gone leaves its files as they are."""
        for volume in self.facts.pod["spec"].get("volumes") or []:
            if CHANGEABLE & volume.keys():
                with contextlib.suppress(SourceMissingError, ApiError):
                    await self._one(volume)

    async def _one(self, volume: Object) -> Path:
        place = self._storage.pod / str(volume["name"])
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            return await self._claim(volume["persistentVolumeClaim"]["claimName"])
        if "emptyDir" in volume and self._storage.scratch is not None:
            place = self._storage.scratch / str(volume["name"])
        place.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume or len(volume) == 1:
            place.chmod(0o777)
            return place
        files, mode = await self._files(volume)
        if self._written.get(volume["name"]) != files:
            _write(place, files, mode)
            self._written[volume["name"]] = files
        return place

    async def _files(self, volume: Object) -> tuple[Content, int]:
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

    async def _keyed(self, kind: str, name: str, source: Mapping[str, Any]) -> Content:
        data = await keyed_object(self._client, kind, self._namespace, name)
        if data is None:
            if source.get("optional"):
                return {}
            raise SourceMissingError(f'{kind} "{name}" not found')
        items = source.get("items")
        if not items:
            return {key: (value, None) for key, value in data.items()}
        chosen: Content = {}
        for item in items:
            if item["key"] in data:
                chosen[item["path"]] = (data[item["key"]], item.get("mode"))
            elif not source.get("optional"):
                shown = "configmap" if kind == "configmap" else "secret"
                raise SourceMissingError(f"{shown} references non-existent {shown} key: {item['key']}")
        return chosen

    def _downward(self, source: Mapping[str, Any]) -> Content:
        files: Content = {}
        for item in source.get("items") or []:
            if "fieldRef" in item:
                text = field(self.facts, item["fieldRef"]["fieldPath"])
            else:
                text = resource(self.facts, item["resourceFieldRef"], {})
            files[item["path"]] = (text.encode(), item.get("mode"))
        return files

    async def _projected(self, source: Mapping[str, Any]) -> Content:
        files: Content = {}
        for part in source.get("sources") or []:
            if "configMap" in part:
                files |= await self._keyed("configmap", part["configMap"].get("name", ""), part["configMap"])
            elif "secret" in part:
                files |= await self._keyed("secret", part["secret"].get("name", ""), part["secret"])
            elif "downwardAPI" in part:
                files |= self._downward(part["downwardAPI"])
            elif "serviceAccountToken" in part:
                files |= await self._token(part["serviceAccountToken"])
        return files

    async def _token(self, source: Mapping[str, Any]) -> Content:
        spec, metadata = self.facts.pod["spec"], self.facts.pod["metadata"]
        name = spec.get("serviceAccountName") or "default"
        try:
            account = await self._client.get("serviceaccounts", name, self._namespace)
        except ApiError as error:
            raise SourceMissingError(
                f'failed to fetch token: serviceaccounts "{name}" is forbidden: serviceaccount "{name}" not found'
            ) from error
        lifetime_s = float(source.get("expirationSeconds") or _TOKEN_S)
        text = self._tokens.of(account, str(metadata["name"]), lifetime_s)
        return {source["path"]: (text.encode(), _TOKEN_MODE)}

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
        return await self._storage.claims.place(self._namespace, name, self._storage.node)


def _write(place: Path, files: Content, mode: int) -> None:
    """Fill the directory as a kubelet does: a hidden directory of data, swapped at once, and links into it."""
    link = place / "..data"
    before = link.readlink().name if link.is_symlink() else ""
    data = place / ("..data-1" if before != "..data-1" else "..data-2")
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    for path, (content, own_mode) in files.items():
        target = (data / path).resolve()
        if not target.is_relative_to(data.resolve()):
            raise SourceMissingError(f"invalid path {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(own_mode if own_mode is not None else mode)
    fresh = place / "..data-new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(data.name)
    fresh.rename(link)
    shown = {path.split("/", 1)[0] for path in files}
    for name in shown:
        if not (place / name).is_symlink():
            (place / name).symlink_to(f"..data/{name}")
    for old in place.iterdir():
        if old.is_symlink() and not old.name.startswith("..") and old.name not in shown:
            old.unlink()
