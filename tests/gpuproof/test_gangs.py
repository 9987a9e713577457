"""Answers of a gang as they come, and what a profile asks of it."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.failure import JobFailure, Reason
from gpuproof.gang_requests import gang_request, suite_request
from gpuproof.gangs import Gang
from gpuproof.inventory import Node
from gpuproof.options import LaunchError, Options
from gpuproof.preflight import read
from gpuproof.profile import THRESHOLDS, load_profile
from gpuproof.suite import Answer

STAGES = {"alone": "nccl_single_node", "whole": "nccl_all_reduce", "localisation": "nccl_localisation"}
DONE = JobFailure(Reason.UNVISITED, "done")


def explain(error: Exception) -> JobFailure:
    return JobFailure(Reason.HARNESS_ERROR, str(error))


def test_an_answer_is_handed_out_as_soon_as_it_is_known_and_told_before() -> None:
    gang, go = Gang(), threading.Event()
    told: list[tuple[str, str]] = []

    def work() -> None:
        gang.publish("alone", "a", DONE)
        go.wait(20)
        gang.publish("whole", "cluster", DONE)

    def take(stage: str, subject: str, answer: Answer) -> None:
        told.append((stage, subject))

    gang.start(work, take, explain)
    assert gang.answer("alone", "a") is DONE
    assert told == [("alone", "a")]
    go.set()
    gang.wait()
    assert gang.answer("whole", "cluster") is DONE
    assert gang.answers("alone") == {"a": DONE}
    assert gang.join(20)


def test_what_breaks_the_gang_is_the_answer_to_all_that_is_open() -> None:
    gang = Gang()

    def work() -> None:
        gang.publish("alone", "a", DONE)
        raise RuntimeError("broken")

    gang.start(work, lambda *_: None, explain)
    assert gang.answer("alone", "a") is DONE
    broken = gang.answer("alone", "b")
    assert isinstance(broken, JobFailure)
    assert (broken.reason, broken.message) == (Reason.HARNESS_ERROR, "broken")


@pytest.mark.parametrize("name", ["simulated", "h100-sxm-8x-ib400"])
def test_every_shipped_profile_has_a_gang_with_floors(name: str) -> None:
    checks = load_checks()
    today = dt.datetime.now(dt.UTC).date()
    profile = load_profile(THRESHOLDS / f"{name}.toml", known_checks=subjects_asked(checks), today=today)
    asked = {stage: check.name for check in checks for stage in check.experiments}
    assert sorted(asked) == ["alone", "ladder", "localisation", "transport", "whole"]
    nodes = {"a": Node("a", True, True, labels={"topology.kubernetes.io/rack": "r1"}), "b": Node("b", True, True)}
    request = gang_request(profile, asked, list(nodes))
    assert request.sweep.candidates == ("a", "b")
    suite = suite_request(profile, {"localisation": asked["localisation"]}, asked, "r1", nodes)
    assert list(suite.params) == ["localisation"]
    assert suite.leaf == {"a": "r1"}
    assert suite.floors is not None
    ceiling = profile.cluster.ring_ceiling_gb_per_s()
    assert ceiling is not None
    assert suite.floors.whole.min_gb_per_s == pytest.approx(ceiling * {"simulated": 0.024}.get(name, 0.75))
    assert suite.floors.alone.min_gb_per_s is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("sizes_bytes = []", "sizes_bytes"),
        ('tool = "nccl-tests"', "tool"),
        ("sizes_byte = [8]", "sizes_bytes"),
    ],
)
def test_parameters_of_an_experiment_are_refused_by_file_and_key(
    changed: str, said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    profile = tmp_path_factory.mktemp("p") / "mine.toml"
    head = f'schema = 1\nprofile = "mine"\nextends = "{THRESHOLDS}/simulated.toml"\n'
    profile.write_text(f"{head}[workload.nccl_all_reduce]\n{changed}\n", encoding="utf-8")
    with pytest.raises(LaunchError, match=said) as caught:
        read(Options(profile=profile))
    assert "mine.toml: [workload.nccl_all_reduce]" in str(caught.value)
