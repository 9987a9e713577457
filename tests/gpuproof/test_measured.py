"""A measurement counts only if it is whole and names this run, this node, this pod and the size asked for."""

from __future__ import annotations

import pytest

from gpuproof.failure import JobFailure, Reason
from gpuproof.measured import Expected, read_message
from tests.gpuproof import pods

EXPECTED = Expected("probe", "r1", "n1", "p", world_size=1, hosts=1)
GOOD = pods.message("n1", "p")


def test_ours() -> None:
    assert read_message(GOOD, EXPECTED) == pods.measurement("n1", "p")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.NO_MEASUREMENT),
        (" \n", Reason.NO_MEASUREMENT),
        (GOOD[20:], Reason.TRUNCATED_MEASUREMENT),
        (GOOD[:-5], Reason.TRUNCATED_MEASUREMENT),
        ("Traceback (most recent call last)", Reason.MALFORMED_MEASUREMENT),
        (GOOD + "and more", Reason.MALFORMED_MEASUREMENT),
        (pods.message("n1", "p", workload="other"), Reason.FOREIGN_MEASUREMENT),
        (pods.message("n1", "p", run_id="r0"), Reason.FOREIGN_MEASUREMENT),
        (pods.message("n2", "p"), Reason.FOREIGN_MEASUREMENT),
        (pods.message("n1", "q"), Reason.FOREIGN_MEASUREMENT),
        (pods.message("n1", "p", world_size=2), Reason.WRONG_WORLD_SIZE),
        (pods.message("n1", "p", world_size=0), Reason.WRONG_WORLD_SIZE),
        (pods.message("n1", "p", hosts=2), Reason.WRONG_NODE_COUNT),
    ],
)
def test_what_does_not_count(text: str, reason: Reason) -> None:
    found = read_message(text, EXPECTED)
    assert isinstance(found, JobFailure)
    assert found.reason is reason
