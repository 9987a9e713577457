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


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """The cluster with controllers running and no node yet."""
    timing = Timing(scale=SCALE)
    gate = Gate()
    server = ApiServer(registry=KubeletRegistry(), hooks=[gate])
    manager = ControllerManager(server.client, timing)
    world = World(server.client, timing, gate=gate)
    await manager.start()
    await world.start()
    yield world
    await world.stop()
    await manager.stop()
    await server.close()
