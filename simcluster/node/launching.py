"""How a container is started: the mounts, devices and variables that its pod and node give it.

Owns the translation of a container's spec into a `Launch`. It must not know states or the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simcluster.api.port import Object
from simcluster.node.context import NodeContext
from simcluster.node.podgpus import PodGpus
from simcluster.node.podrdma import PodRdma
from simcluster.node.rootfs import RootPlan
from simcluster.node.runtime import Launch, LaunchError

Bind = tuple[str, str, bool]
_NAME_FILES = ("hosts", "hostname", "resolv.conf", "nsswitch.conf")
_TOOLS = "/opt/simcluster"


class LaunchPlanner:
    """Plans the containers of one pod; `volumes` holds the place of each volume once they are set up."""

    def __init__(
        self, node: NodeContext, uid: str, directory: Path, rdma: PodRdma, *, share_pids: bool = False
    ) -> None:
        self._share_pids = share_pids
        self.volumes: dict[str, Path] = {}
        self._node = node
        self._uid = uid
        self._directory = directory
        self._rdma = rdma
        self._gpus = PodGpus(node, uid, directory)

    def plan(self, container: Object, env: Mapping[str, str], argv: Sequence[str], message: Path) -> Launch:
        """The launch of one container; its last words go to the file `message`. Raises `LaunchError`."""
        site = self._node.site
        variables = dict(env)
        message_path = container.get("terminationMessagePath") or "/dev/termination-log"
        mounts = self._mounts(container)
        binds = [*site.root.binds, *self._files(), *self._gpus.binds(container, variables), *mounts]
        binds += site.claims.equip(mounts, self._volumes_view(container["name"]), self._node.name, variables)
        binds += self._rdma.binds(container, variables)
        binds.append((str(message), message_path, False))
        if self._node.mode == "light":
            variables["TERMINATION_LOG"] = message_path
        binds.sort(key=lambda bind: bind[1].count("/"))
        if (locked_kib := self._rdma.locked_kib(container)) is not None:
            argv = ["/bin/sh", "-c", f'ulimit -l {locked_kib} && exec "$@"', "sh", *argv]
        return Launch(
            argv,
            variables,
            RootPlan(site.root.base, site.root.overlays, site.root.links, binds),
            cwd=container.get("workingDir") or "/",
            sandbox=self._uid if self._node.mode == "full" else None,
            share_pids=self._share_pids,
        )

    def forget(self, containers: Sequence[str]) -> None:
        """The pod has ended."""
        for name in containers:
            self._node.site.claims.forget(self._volumes_view(name))
        self._gpus.forget(containers)

    def _volumes_view(self, container: str) -> Path:
        return self._directory / f"{container}.volumes"

    def _files(self) -> list[Bind]:
        tools = (str(self._node.site.shim), _TOOLS, True)
        if self._node.mode != "full":
            return [tools]
        return [
            tools,
            *((str(self._directory / name), f"/etc/{name}", False) for name in _NAME_FILES),
        ]

    def _mounts(self, container: Object) -> list[Bind]:
        binds = []
        for mount in container.get("volumeMounts") or []:
            source = self.volumes[mount["name"]]
            if mount.get("subPath"):
                source = self._inside(source, mount["subPath"], mount["name"])
            binds.append((str(source), mount["mountPath"].rstrip("/") or "/", bool(mount.get("readOnly"))))
        return binds

    def _inside(self, volume: Path, path: str, name: str) -> Path:
        place = (volume / path).resolve()
        if not place.is_relative_to(volume.resolve()):
            raise LaunchError(f"failed to prepare subPath for volumeMount {name!r}")
        if not place.exists():
            place.mkdir(parents=True)
        return place
