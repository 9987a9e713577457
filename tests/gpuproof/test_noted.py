# ruff: noqa: ARG002  (it implements a port; not every argument matters to a toy)
"""What a run creates is kept as it was created, but for what a Secret holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuproof.cluster.port import CONFIG_MAPS, NAMESPACES, Resource
from gpuproof.noted import noting
from tests.gpuproof.toy_cluster import ToyCluster


class Taking(ToyCluster):
    """A toy that takes any object."""

    def create(self, resource: Resource, body: Any, *, namespace: str | None = None) -> Any:
        return body


def test_every_object_is_kept_in_the_order_of_its_creation(tmp_path: Path) -> None:
    cluster = noting(Taking.of(1), tmp_path)
    cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "../evil"}})
    cluster.create(CONFIG_MAPS, {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}, namespace="n")
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "c2VjcmV0"}, "stringData": {"k": "secret"}}
    cluster.create(Resource("api/v1", "secrets"), secret, namespace="n")

    files = sorted((tmp_path / "manifests").iterdir())
    assert [file.name for file in files] == ["001-namespace-..-evil.yaml", "002-configmap-c.yaml", "003-secret-s.yaml"]
    kept = [yaml.safe_load(file.read_text()) for file in files]
    assert kept[1] == {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"a": "b"}}
    assert kept[2]["data"] == {"key": "left out"}
    assert "secret" not in files[2].read_text().replace("kind: Secret", "")
    assert cluster.name == Taking.of(1).name
