"""Where kills are planned: each has saves of its own, victims take turns, and the trainer's word for it is exact."""

from __future__ import annotations

import threading

import pytest

from gpuproof.continuation import Line, Where
from gpuproof.failure import JobFailure
from gpuproof.manifests import PodSettings, Renderer, TrainingJob
from gpuproof.training_kills import (
    ON_ONE_TRAINING,
    Kill,
    KilledTraining,
    Planned,
    Shape,
    plan_kills,
    plan_rest,
    steps_needed,
)
from gpuproof.training_watch import TrainingWatch
from tests.gpuproof.toy_cluster import ToyCluster
from workloads.contract import Measurement


def shape(pods: int = 2, save_every: int = 3) -> Shape:
    return Shape(pods, 1, save_every, 60.0, 60.0)


@pytest.mark.parametrize("save_every", [1, 2, 3, 10])
def test_every_kill_has_a_save_before_it_and_one_after_it(save_every: int) -> None:
    planned = plan_kills(list(Kill), shape(save_every=save_every))
    assert [one.kill for one in planned] == list(Kill)
    for place, one in enumerate(planned):
        before, after = (2 * place + 1) * save_every, (2 * place + 2) * save_every
        assert before < one.step <= after
        if one.where is Where.SAVE:
            assert one.step == after
    rest = plan_rest(len(planned), shape(save_every=save_every))
    assert planned[-1].step < rest.step <= steps_needed(len(planned), save_every)


def test_victims_take_turns_and_only_one_kill_lands_in_a_save() -> None:
    planned = plan_kills(list(Kill), shape(pods=3))
    assert [one.index for one in planned] == [2, 1, 0, 2, 1, 2]
    assert [one.kill for one in planned if one.where is Where.SAVE] == [Kill.IN_SAVE]
    assert planned[1].hold == "save:12:1"


def test_the_victim_of_a_kill_is_the_same_whatever_else_is_asked() -> None:
    together = {one.kill: one.index for one in plan_kills(list(Kill), shape())}
    assert {kill: plan_kills([kill], shape())[0].index for kill in Kill} == together
    assert together[Kill.IN_SAVE] == 0, "rank 0 leads every save, and must be lost inside one"
    assert together[Kill.NODE_LOST] != 0, "rank 0 tells what happens, and must be heard"


def test_a_lost_node_is_no_part_of_the_training_that_suffers_all_other_kills() -> None:
    assert [kill for kill in Kill if kill not in ON_ONE_TRAINING] == [Kill.NODE_LOST]


@pytest.fixture
def watch() -> TrainingWatch:
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 30, 900)
    return TrainingWatch(ToyCluster({}), renderer, job)


def test_a_training_that_can_be_compared_with_nothing_is_not_waited_for(watch: TrainingWatch) -> None:
    planned = plan_kills([Kill.ONE_POD, Kill.IN_SAVE], shape())
    told: list[Planned] = []
    training = KilledTraining(watch, shape(), planned, threading.Event(), "r1", in_vain=lambda: True)
    assert not training.run(list, told.append)
    assert told == [planned[0]]
    answer = training.answers[Kill.ONE_POD]
    assert isinstance(answer, JobFailure)
    assert "there is no reference to compare with" in answer.message


def test_a_kill_that_comes_to_nothing_because_another_has_the_folder_says_so(watch: TrainingWatch) -> None:
    watch.lines.append(
        Line(1.0, {"e": "other-writer", "who": "killed-0-0-x on n1 (claim 1)", "did": "claimed it later"})
    )
    training = KilledTraining(
        watch, shape(), plan_kills([Kill.ONE_POD], shape()), threading.Event(), "r1", lambda: True
    )
    assert not training.run(list, lambda _: None)
    answer = training.answers[Kill.ONE_POD]
    assert isinstance(answer, Measurement)
    assert answer.facts == {"other_writers": "killed-0-0-x on n1 (claim 1): claimed it later"}
