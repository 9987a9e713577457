"""Recorded scenarios of a real Kubernetes: the same states, reasons, messages and bodies on the simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.golden.campaign import Differences, claimed, once, scenarios
from tests.contract.golden.special import KNOWN, UNCLAIMED

GOAL = 45


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(strict=True, reason=KNOWN[name])] if name in KNOWN else []


@pytest.fixture(scope="session")
def replayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Differences:
    """What differed, by scenario; all scenarios of this session are replayed at the first use, side by side."""
    if request.config.getoption("--kubeconfig", default=None) is not None:
        pytest.skip(
            "the recordings are of a cluster of their own kind; on a real cluster the cases speak for themselves"
        )
    wanted = {
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__) and hasattr(item, "callspec")
    } & set(claimed())
    base = tmp_path_factory.getbasetemp()
    return once(base.parent if hasattr(request.config, "workerinput") else base, sorted(wanted))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in claimed()])
def test_a_scenario_replays(replayed: Differences, name: str) -> None:
    assert replayed[name] == []


def test_enough_scenarios_are_claimed_and_the_rest_is_listed() -> None:
    assert set(UNCLAIMED) <= set(scenarios())
    assert all(UNCLAIMED.values())
    assert len(claimed()) >= GOAL


def test_every_scenario_has_an_expectation() -> None:
    assert len(scenarios()) == 55
    assert all((Path(__file__).parent / "expected" / f"{name}.json").stat().st_size for name in scenarios())
