"""One simulated cluster for all tests of a worker, one namespace a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.simcluster.node.cluster_process import Namespace, SimulatedCluster, running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    with running(tmp_path_factory.mktemp("cluster"), "--time-scale", "0.05") as started:
        yield started


@pytest.fixture
def ns(cluster: SimulatedCluster) -> Namespace:
    return Namespace(cluster, f"t{next(_numbers)}")
