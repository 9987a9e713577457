"""A control plane with all operators of this stand-in installed, and a small kubelet that acts by script."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer
from simcluster.controllers.manager import ControllerManager
from simcluster.operators.installed import Operators
from simcluster.timing import Timing
from tests.simcluster.controllers.world import Gate, World

SCALE = 0.02


@pytest.fixture
def operators() -> Operators:
    """Which operators are installed, and how they misbehave."""
    return Operators(["jobset", "trainer"], {})


@pytest.fixture
async def world(operators: Operators) -> AsyncIterator[World]:
    """The cluster with controllers running and one node."""
    timing = Timing(scale=SCALE)
    gate = Gate()
    server = ApiServer(registry=KubeletRegistry(), hooks=[gate], webhooks=operators.webhooks())
    server.resources.admission += operators.checks(server.resources)
    await operators.install(server.client)
    manager = ControllerManager(server.client, timing, owned=operators.owned, more=operators.controllers)
    world = World(server.client, timing, gate=gate)
    await manager.start()
    await world.start()
    await world.node("n1")
    yield world
    await world.stop()
    await manager.stop()
    await server.close()
