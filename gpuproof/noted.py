"""Keeps a copy of every object that a run creates, so that anybody can read, and repeat with kubectl, what was run.

It must not know what the objects mean. A Secret is kept without what it holds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from gpuproof.cluster.port import Cluster, Resource
from gpuproof.cluster.raw import Raw

MANIFESTS = "manifests"
"""The folder of a run that the copies are in, numbered in the order in which they were created."""

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def noting(cluster: Cluster, directory: Path) -> Cluster:
    """The cluster itself, but for `create`, which leaves a copy in `directory`/manifests first."""
    return cast("Cluster", _Noting(cluster, directory / MANIFESTS))


class _Noting:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        self._keep(body, namespace)
        return self._cluster.create(resource, body, namespace=namespace)

    def _keep(self, body: Mapping[str, Any], namespace: str | None) -> None:
        metadata = dict(body.get("metadata") or {})
        if namespace is not None:
            metadata.setdefault("namespace", namespace)
        shown = {**body, "metadata": metadata}
        for secret in ("data", "stringData") if body.get("kind") == "Secret" else ():
            if secret in shown:
                shown[secret] = dict.fromkeys(shown[secret], "left out")
        words = re.sub(r"[^a-z0-9.-]+", "-", f"{body.get('kind', '')}-{metadata.get('name', '')}".lower())
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            number = 1 + sum(1 for _ in self._folder.iterdir())
            text = yaml.dump(shown, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
            (self._folder / f"{number:03d}-{words[:80]}.yaml").write_text(text, encoding="utf-8")
