"""Where kills are planned: each has saves of its own, victims take turns, and the trainer's word for it is exact."""

from __future__ import annotations

import threading

import pytest

from gpuproof.continuation import Where
from gpuproof.failure import JobFailure
from gpuproof.manifests import PodSettings, Renderer, TrainingJob
from gpuproof.training_kills import Kill, KilledTraining, Planned, Shape, plan_kills, plan_rest, steps_needed
from gpuproof.training_watch import TrainingWatch
from tests.gpuproof.toy_cluster import ToyCluster


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
    assert [one.index for one in planned] == [2, 1, 0, 2, 1]
    assert [one.kill for one in planned if one.where is Where.SAVE] == [Kill.IN_SAVE]
    assert planned[1].hold == "save:12:1"


def test_a_training_that_can_be_compared_with_nothing_is_not_waited_for() -> None:
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 30, 900)
    watch = TrainingWatch(ToyCluster({}), renderer, job)
    planned = plan_kills([Kill.ONE_POD, Kill.IN_SAVE], shape())
    told: list[Planned] = []
    training = KilledTraining(watch, shape(), planned, threading.Event(), "r1", in_vain=lambda: True)
    assert not training.run(list, told.append)
    assert told == [planned[0]]
    answer = training.answers[Kill.ONE_POD]
    assert isinstance(answer, JobFailure)
    assert "there is no reference to compare with" in answer.message
