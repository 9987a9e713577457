"""The claims of a run: made in its namespace before the first pod that mounts them, gone with it.

It must not know what a claim holds, or which check asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.cluster.port import CLAIMS, Cluster, ClusterError
from gpuproof.manifests import Renderer


def make_claims(cluster: Cluster, renderer: Renderer, names: Iterable[str], made: set[str]) -> None:
    """Create the claims on these storages of the profile that are not in `made` yet, and put them there.

    Whether a claim is bound is not waited for: many classes bind only when a pod is placed, and a claim that stays
    unbound keeps its pods from being placed, which says so. Raises `ClusterError`, naming the storage.
    """
    for name in names:
        if name in made:
            continue
        try:
            cluster.create(CLAIMS, renderer.claim(name), namespace=renderer.namespace)
        except ClusterError as error:
            if error.status != 409:
                said = f"the claim on [storage.{name}] was refused: {error.message}"
                raise ClusterError(error.reason, said, error.status, error.retry_after_s) from error
        made.add(name)
