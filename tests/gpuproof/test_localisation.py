"""The localisation planner: what it asks for, whom it blames, what it refuses; `make localisation` is the rest."""

import math
import random
from collections.abc import Callable, Sequence

import pytest

from gpuproof.localisation import (
    Blame,
    Experiment,
    ExperimentResult,
    Floor,
    Floors,
    GroupResult,
    Outcome,
    Question,
    Stage,
    Symptom,
    next_step,
    rounds_at_most,
)
from tests.localisation.fabric import Fabric
from tests.localisation.scenarios import SCENARIOS, Scenario, named
from tests.localisation.scoring import Score
from tests.localisation.seeds import TUNING
from tests.localisation.simulate import localise, seed_of

FLOORS = Floors(whole=Floor(30.0), pair=Floor(30.0), alone=Floor(100.0))
GOOD, BAD, INSIDE = (40.0,) * 5, (2.0,) * 5, (200.0,) * 5

Measure = Callable[[tuple[str, ...]], GroupResult]


def run(question: Question, measure: Measure) -> tuple[Blame, list[ExperimentResult]]:
    """Answer the planner's experiments until it blames."""
    results: list[ExperimentResult] = []
    step = next_step(question, results)
    while isinstance(step, Experiment):
        assert len(results) < 60
        results.append(ExperimentResult(step, tuple(measure(group) for group in step.groups)))
        step = next_step(question, results)
    return step, results


def slow_where(bad: Callable[[Sequence[str]], bool], answer: GroupResult | None = None) -> Measure:
    """Measure without noise: groups that are bad, and the others."""

    def measure(nodes: tuple[str, ...]) -> GroupResult:
        if not bad(nodes):
            return GroupResult(nodes, busbw_gb_per_s=INSIDE if len(nodes) == 1 else GOOD)
        if answer is None:
            return GroupResult(nodes, busbw_gb_per_s=BAD)
        return GroupResult(nodes, answer.outcome, answer.busbw_gb_per_s, answer.stuck)

    return measure


def holding(*nodes: str) -> Callable[[Sequence[str]], bool]:
    """Groups of two and more that hold one of these nodes."""
    return lambda group: len(group) > 1 and bool(set(nodes) & set(group))


def test_a_whole_set_that_meets_its_floor_is_the_end() -> None:
    blame, results = run(Question(named(8), FLOORS), slow_where(lambda _: False))
    assert (blame.missed, blame.nodes, blame.links, blame.fabric) == (False, (), (), ())
    assert [result.experiment.stage for result in results] == [Stage.ALONE, Stage.WHOLE]
    assert blame.whole_gb_per_s == 40.0


@pytest.mark.parametrize("count", [3, 4, 5, 7, 8, 9, 33])
def test_one_bad_node_is_named_with_both_numbers(count: int) -> None:
    names = named(count)
    blame, _ = run(Question(names, FLOORS), slow_where(holding(names[1])))
    assert [found.node for found in blame.nodes] == [names[1]]
    assert not blame.links
    assert (blame.stands, blame.whole_gb_per_s, blame.without_gb_per_s) == (True, 2.0, 40.0)
    assert blame.rounds <= rounds_at_most(count)
    assert not blame.nodes[0].intermittent


@pytest.mark.parametrize(
    ("answer", "symptom"),
    [
        (GroupResult((), Outcome.HUNG, stuck=("node-0000",)), Symptom.HUNG),
        (GroupResult((), Outcome.DIED, stuck=("node-0000",)), Symptom.DIED),
        (GroupResult((), Outcome.WRONG, GOOD), Symptom.WRONG),
        (GroupResult((), Outcome.MEASURED, ()), Symptom.SLOW),
        (GroupResult((), Outcome.MEASURED, (math.nan,) * 5), Symptom.SLOW),
        (GroupResult((), Outcome.MEASURED, (0.0,) * 5), Symptom.SLOW),
    ],
    ids=["hung", "died", "wrong", "nothing measured", "not a number", "zero"],
)
def test_what_is_not_measured_well_is_a_miss_whatever_its_numbers(answer: GroupResult, symptom: Symptom) -> None:
    blame, _ = run(Question(named(8), FLOORS), slow_where(holding("node-0005"), answer))
    assert [(found.node, found.symptom) for found in blame.nodes] == [("node-0005", symptom)]
    assert blame.stands


def test_a_node_that_is_slow_by_itself_is_said_to_be() -> None:
    blame, _ = run(Question(named(8), FLOORS), slow_where(lambda group: "node-0003" in group))
    assert [(found.node, found.alone) for found in blame.nodes] == [("node-0003", True)]


def test_a_slow_link_is_a_link_and_one_end_leaves_for_the_counterfactual() -> None:
    link = {"node-0002", "node-0003"}
    blame, results = run(Question(named(8), FLOORS), slow_where(lambda group: link <= set(group)))
    assert [found.nodes for found in blame.links] == [("node-0002", "node-0003")]
    assert not blame.nodes
    assert blame.stands
    last = results[-1].experiment
    assert last.stage is Stage.COUNTERFACTUAL
    assert len(set(last.groups[0]) & link) == 1


def test_the_fabric_between_two_halves_is_named_when_every_pair_is_good() -> None:
    names = named(8)
    leaf = {name: "left" if at < 4 else "right" for at, name in enumerate(names)}
    crossing = slow_where(lambda group: len(group) > 2 and len({leaf[node] for node in group}) > 1)
    blame, _ = run(Question(names, FLOORS, leaf=leaf), crossing)
    assert [found.leaves for found in blame.fabric] == [("left", "right")]
    assert not blame.nodes
    assert not blame.links
    assert blame.stands


def test_when_nothing_is_good_nobody_is_blamed() -> None:
    blame, _ = run(Question(named(8), FLOORS), slow_where(lambda group: len(group) > 1))
    assert (blame.nodes, blame.links, blame.stands) == ((), (), False)
    assert "no good node" in blame.unexplained


def test_a_miss_that_never_comes_back_is_shown_and_not_blamed() -> None:
    seen: list[tuple[str, ...]] = []

    def measure(nodes: tuple[str, ...]) -> GroupResult:
        seen.append(nodes)
        first = seen.count(nodes) == 1 and (len(nodes) == 8 or set(nodes) == {"node-0004", "node-0005"})
        return slow_where(lambda _: first)(nodes)

    blame, _ = run(Question(named(8), FLOORS), measure)
    assert (blame.nodes, blame.links, blame.missed, blame.stands) == ((), (), True, False)
    assert [found.nodes for found in blame.seen_once] == [("node-0004", "node-0005")]
    assert "once" in blame.unexplained


def test_of_two_nodes_nobody_can_say_which() -> None:
    blame, _ = run(Question(named(2), FLOORS), slow_where(lambda group: len(group) > 1))
    assert (blame.nodes, [found.nodes for found in blame.links]) == ((), [named(2)])
    assert not blame.stands
    assert "third" in blame.unexplained


def test_a_floor_for_pairs_may_be_a_share_of_what_most_pairs_reach() -> None:
    floors = Floors(whole=Floor(30.0), pair=Floor(min_fraction=0.5))
    blame, _ = run(Question(named(8), floors), slow_where(holding("node-0006")))
    assert [found.node for found in blame.nodes] == ["node-0006"]


def test_the_plan_depends_on_nothing_but_the_results() -> None:
    question = Question(named(16), FLOORS, seed=3)
    _, results = run(question, slow_where(holding("node-0001", "node-0009")))
    for count in range(len(results)):
        assert next_step(question, results[:count]) == results[count].experiment


def test_the_bound_on_rounds_is_kept_by_giving_up() -> None:
    blame, _ = run(Question(named(8), FLOORS, rounds=2), slow_where(holding("node-0001", "node-0003")))
    assert (blame.rounds, blame.stands) == (2, False)
    assert "2 rounds" in blame.unexplained


@pytest.mark.parametrize(
    "make",
    [
        lambda: Experiment(Stage.PAIRS, (("a", "b"), ("b", "c")), ""),
        lambda: Experiment(Stage.PAIRS, (), ""),
        lambda: ExperimentResult(Experiment(Stage.PAIRS, (("a", "b"), ("c", "d")), ""), (GroupResult(("a", "b")),)),
        lambda: Floors(whole=Floor(min_fraction=0.5), pair=Floor(1.0)),
        lambda: Floors(whole=Floor(1.0), pair=Floor()),
        lambda: Floors(whole=Floor(0.0), pair=Floor(1.0)),
        lambda: Floors(whole=Floor(math.nan), pair=Floor(1.0)),
        lambda: Floors(whole=Floor(1.0), pair=Floor(min_fraction=1.5)),
        lambda: Question(("a", "a"), FLOORS),
        lambda: Question(("a",), FLOORS),
    ],
    ids=[
        "shared node",
        "no group",
        "group without result",
        "whole without a number",
        "pair without a floor",
        "zero",
        "nan",
        "fraction above one",
        "same node twice",
        "one node",
    ],
)
def test_what_could_not_fail_anything_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_rounds_at_most() -> None:
    assert [rounds_at_most(nodes) for nodes in (2, 8, 9, 16, 232, 1024)] == [4, 4, 5, 5, 9, 11]


STEADY = [scenario for scenario in SCENARIOS if scenario.counts and "experiments" not in scenario.name]


@pytest.mark.parametrize("scenario", STEADY, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("nodes", [8, 32])
def test_in_noise_what_is_wrong_is_named(scenario: Scenario, nodes: int) -> None:
    seeds = [seed_of(TUNING, scenario.name, nodes, index) for index in range(2)]
    found = [localise(scenario.build(nodes, random.Random(seed)), seed).score for seed in seeds]
    assert set(found) <= {Score.RIGHT, Score.MET}


def test_the_simulation_can_tell_a_wrong_blame() -> None:
    names = named(8)
    seen = localise(Fabric(names, dict.fromkeys(names, "leaf")), 1)
    assert seen.score is Score.MET


def disturbed(*wholes_that_miss: int) -> Measure:
    """Node 2 is slow, and these runs of the set without it miss too, counted from 1."""
    seen: list[int] = []

    def measure(nodes: tuple[str, ...]) -> GroupResult:
        counterfactual = len(nodes) == 8 and "node-0002" not in nodes
        seen.append(counterfactual)
        slow = counterfactual and sum(seen) in wholes_that_miss
        return slow_where(lambda group: slow or holding("node-0002")(group))(nodes)

    return measure


def test_a_set_without_the_blamed_that_misses_once_must_meet_four_times_and_costs_no_round() -> None:
    blame, results = run(Question(named(9), FLOORS), disturbed(1))
    assert ([found.node for found in blame.nodes], blame.stands) == (["node-0002"], True)
    assert blame.rounds <= rounds_at_most(9)
    assert [result.experiment.stage for result in results[-5:]] == [Stage.COUNTERFACTUAL] * 5


def test_a_set_without_the_blamed_that_misses_twice_is_looked_into() -> None:
    blame, results = run(Question(named(9), FLOORS), disturbed(1, 3))
    stages = [result.experiment.stage for result in results]
    assert Stage.MORE_PAIRS in stages[stages.index(Stage.COUNTERFACTUAL) :]
    assert [found.node for found in blame.nodes] == ["node-0002"]
