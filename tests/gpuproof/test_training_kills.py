"""Where kills are planned: each has saves of its own, victims take turns, and the trainer's word for it is exact."""

from __future__ import annotations

import pytest

from gpuproof.continuation import Where
from gpuproof.training_kills import Kill, Shape, plan_kills, plan_rest, steps_needed


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
