"""A fresh API server for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer


@pytest.fixture
def registry() -> KubeletRegistry:
    """The kubelets that answer; empty until a test registers one."""
    return KubeletRegistry()


@pytest.fixture
async def api(registry: KubeletRegistry) -> AsyncIterator[ApiServer]:
    """A server with the standing namespaces and nothing else."""
    server = ApiServer(registry=registry)
    yield server
    await server.close()
