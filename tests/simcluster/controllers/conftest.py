"""A real API server in this process, the controllers on it, and a small kubelet that acts by script."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer
from simcluster.controllers.manager import ControllerManager
from simcluster.timing import Timing
from tests.simcluster.controllers.world import Gate, World

SCALE = 0.05
ROOT_CA = "-----BEGIN CERTIFICATE-----"


@pytest.fixture
def scale() -> float:
    """How fast the cluster's clock runs; a module of slow happenings may override it."""
    return SCALE


@pytest.fixture
async def world(scale: float) -> AsyncIterator[World]:
    """The cluster with controllers running and no node yet."""
    timing = Timing(scale=scale)
    gate = Gate()
    server = ApiServer(registry=KubeletRegistry(), hooks=[gate])
    manager = ControllerManager(server.client, timing)
    world = World(server.client, timing, gate=gate)
    await manager.start(root_ca=ROOT_CA)
    await world.start()
    yield world
    await world.stop()
    await manager.stop()
    await server.close()
