"""A control plane in this process with operators installed, and the small kubelet that acts by script."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer
from simcluster.controllers.manager import ControllerManager
from simcluster.operators.installed import Operators
from simcluster.timing import Timing
from tests.simcluster.controllers.world import World

SCALE = 0.02


@pytest.fixture
def operators() -> tuple[str, ...]:
    """The operators that are installed; a module names its own."""
    return ()


@pytest.fixture
def troubles() -> dict[str, str]:
    """How they misbehave; not at all."""
    return {}


@pytest.fixture
async def world(operators: tuple[str, ...], troubles: dict[str, str]) -> AsyncIterator[World]:
    """The cluster with controllers and operators running and no node yet."""
    timing = Timing(scale=SCALE)
    installed = Operators(operators, troubles)
    server = ApiServer(registry=KubeletRegistry(), webhooks=installed.webhooks())
    await installed.install(server.client)
    manager = ControllerManager(server.client, timing, owned=installed.owned, more=installed.controllers)
    world = World(server.client, timing)
    await manager.start()
    await world.start()
    yield world
    await world.stop()
    await manager.stop()
    await server.close()
