"""Options and fixtures: which cluster, a namespace per test or module, a kubectl.

Without --kubeconfig a simulated cluster is started for the session.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cluster import Build, Cluster, Namespace, open_cluster
from tests.contract.simulator import simulated

SIMULATED_IMAGE = "simcluster.local/python:3"
REAL_IMAGE = "docker.io/library/python:3-slim"
TIME_SCALE = 0.1


def pytest_addoption(parser: pytest.Parser) -> None:
    """The three options of this suite."""
    group = parser.getgroup("contract", "cases about Kubernetes itself")
    group.addoption("--kubeconfig", type=Path, default=None, help="a cluster of your own instead of the simulated one")
    group.addoption(
        "--contract-image",
        default=None,
        help=f"an image with sh and python3 for the cases' pods (default on a cluster of your own: {REAL_IMAGE})",
    )
    group.addoption(
        "--time-scale",
        type=float,
        default=TIME_SCALE,
        help=f"delays of the simulated cluster, relative to a real one (default {TIME_SCALE:g})",
    )


def _kubectl() -> str | None:
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if beside.exists() else shutil.which("kubectl")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster under test."""
    options = request.config
    kubeconfig: Path | None = options.getoption("--kubeconfig", default=None)
    image: str | None = options.getoption("--contract-image", default=None)
    if kubeconfig is not None:
        yield open_cluster(kubeconfig, image or REAL_IMAGE, 1.0, simulated=False, kubectl_binary=_kubectl())
        return
    scale: float = options.getoption("--time-scale", default=TIME_SCALE)
    with simulated(tmp_path_factory.mktemp("simulator"), time_scale=scale) as found:
        yield open_cluster(found, image or SIMULATED_IMAGE, scale, simulated=True, kubectl_binary=_kubectl())


@pytest.fixture(scope="session")
def build(cluster: Cluster) -> Build:
    """Builds pods and Jobs that can run on this cluster."""
    return Build(cluster.image)


@pytest.fixture
def ns(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace of this test's own."""
    namespace = cluster.namespace()
    yield namespace
    namespace.drop()


@pytest.fixture(scope="module")
def shared_ns(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace of this module's own."""
    namespace = cluster.namespace()
    yield namespace
    namespace.drop()


@pytest.fixture
def kubectl(cluster: Cluster) -> Cluster:
    """The cluster, where a kubectl is installed."""
    if cluster.kubectl_binary is None:
        pytest.skip("no kubectl on this machine")
    return cluster
