"""The fixtures that checks ask with; each is one of the run's questions, told which check asks.

Must not know how a question is answered.
"""

from __future__ import annotations

from functools import partial

import pytest

from gpuproof.items import identity, launched_of
from gpuproof.questions import Questions
from gpuproof.suite import (
    FollowLoad,
    KillTraining,
    Observe,
    ReadExporter,
    ReadPrometheus,
    RunExperiment,
    RunWorkload,
    TryClaims,
)


def _asked_by(request: pytest.FixtureRequest) -> tuple[Questions, str]:
    """What the run of a check can be asked, and the check's name, which is told with each question."""
    check, _ = identity(request.node)
    return launched_of(request.config).run.questions, check


@pytest.fixture
def observe(request: pytest.FixtureRequest) -> Observe:
    """What the API says of a subject."""
    questions, check = _asked_by(request)
    return partial(questions.observe, check)


@pytest.fixture
def run_workload(request: pytest.FixtureRequest) -> RunWorkload:
    """Run a workload over all subjects of this check, once, and wait for one of them."""
    questions, check = _asked_by(request)
    return partial(questions.ask, check)


@pytest.fixture
def try_claims(request: pytest.FixtureRequest) -> TryClaims:
    """Make, bind, look at and delete a claim on each storage of the profile."""
    questions, check = _asked_by(request)
    return partial(questions.try_claims, check)


@pytest.fixture
def run_experiment(request: pytest.FixtureRequest) -> RunExperiment:
    """Have the gang do something, once for all subjects of this check, and wait for one of them."""
    questions, check = _asked_by(request)
    return partial(questions.ask_gang, check)


@pytest.fixture
def kill_training(request: pytest.FixtureRequest) -> KillTraining:
    """Kill the run's training in this way and wait for what comes back."""
    questions, check = _asked_by(request)
    return partial(questions.kill_training, check)


@pytest.fixture
def read_exporter(request: pytest.FixtureRequest) -> ReadExporter:
    """What a node's metrics exporter tells."""
    questions, check = _asked_by(request)
    return partial(questions.read_exporter, check)


@pytest.fixture
def read_prometheus(request: pytest.FixtureRequest) -> ReadPrometheus:
    """What Prometheus keeps of a node's GPUs."""
    questions, check = _asked_by(request)
    return partial(questions.read_prometheus, check)


@pytest.fixture
def follow_load(request: pytest.FixtureRequest) -> FollowLoad:
    """What a node's metrics exporter told of a load."""
    questions, check = _asked_by(request)
    return partial(questions.follow_load, check)
