"""What kubelets of several releases say of an image, read right, and never a number that they did not say."""

from __future__ import annotations

import pytest

from gpuproof.failure import JobFailure, Reason
from gpuproof.image_pull import read_pull, seconds
from gpuproof.visits import Timings, Visited
from workloads.contract import Measurement

IMAGE = "registry.example:5000/team/train:7"
RAN = Visited("n1", "p1", 0, Measurement("image_first", "run", "n1", "p1", 1, 1), Timings(1.0, 3.5, 4.0))


def read(*said: str) -> Measurement:
    found = read_pull(said, RAN, "first")
    assert isinstance(found, Measurement)
    return found


# The forms of pkg/kubelet/images/image_manager.go: 1.26 and older, from 1.27 on, from 1.30 on.
OLD = f'Successfully pulled image "{IMAGE}" in 1m2.5s'
WAITING = f'Successfully pulled image "{IMAGE}" in 2.5s (3.25s including waiting)'
SIZE = f'Successfully pulled image "{IMAGE}" in 2.5s (3.25s including waiting). Image size: 5000000000 bytes.'
HERE = f'Container image "{IMAGE}" already present on machine'
HERE_NOW = f"{HERE} and can be accessed by the pod"


@pytest.mark.parametrize(
    ("said", "samples", "fact"),
    [
        ([OLD], {"pull": 62.5}, "pulled"),
        ([WAITING], {"pull": 2.5, "pull_with_waiting": 3.25}, "pulled"),
        (
            [SIZE, HERE_NOW],
            {"pull": 2.5, "pull_with_waiting": 3.25, "image_size": 5e9, "pull_rate": 2.0},
            "pulled",
        ),
        ([HERE], {}, "already present"),
        ([HERE_NOW], {}, "already present"),
    ],
    ids=["one time", "with waiting", "with size, by the pod's other container", "present", "present, from 1.35 on"],
)
def test_the_words_of_kubelets(said: list[str], samples: dict[str, float], fact: str) -> None:
    found = read(*said)
    assert {sample.metric: sample.value for sample in found.samples} == {"pod_started": 2.5, **samples}
    assert {sample.at["start"] for sample in found.samples} == {"first"}
    assert found.facts == {"image_of_first_pod": fact}
    assert found.environment["first_registry"] == "registry.example:5000"
    assert (found.workload, found.node, found.pod, found.run_id) == ("kubelet-first", "n1", "p1", "run")


@pytest.mark.parametrize(
    "said", [[], ["Pulled"], [f'Pulling image "{IMAGE}"'], ["Successfully pulled image in no time"]]
)
def test_a_kubelet_that_says_nothing_is_no_measurement(said: list[str]) -> None:
    found = read_pull(said, RAN, "first")
    assert isinstance(found, JobFailure)
    assert found.reason is Reason.NO_MEASUREMENT


def test_what_took_no_time_has_no_rate() -> None:
    found = read(f'Successfully pulled image "{IMAGE}" in 0s (0s including waiting). Image size: 5 bytes.')
    assert "pull_rate" not in {sample.metric for sample in found.samples}


@pytest.mark.parametrize(
    ("duration", "expected"),
    [("812ms", 0.812), ("1.5s", 1.5), ("1h2m3.04s", 3723.04), ("350µs", 0.00035), ("20ns", 2e-8)],
)
def test_durations_as_go_writes_them(duration: str, expected: float) -> None:
    assert seconds(duration) == pytest.approx(expected)
