"""Owns the order of experiments; must not know how one is run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from gpuproof.localisation.blame import Blame, FabricBlame, LinkBlame, NodeBlame, SeenOnce
from gpuproof.localisation.experiment import Experiment, ExperimentResult, Question, Stage, rounds_at_most
from gpuproof.localisation.pairing import matching, ring, try_again, within_leaves
from gpuproof.localisation.parts import Ask, Found, GaveUp, Search, parts_of
from gpuproof.localisation.reading import Reading, State, read
from gpuproof.localisation.runs import Runs, missed
from gpuproof.localisation.suspicion import Suspicion, accuse

PATIENCE = 4
"""A search without a bound of its own may take so many times the rounds that steady bad nodes take."""
SURE = 3
"""Whole sets without the blamed that must meet the floor where a fault comes and goes, as one could be luck."""
TWICE = 2
"""The same where nothing is open but misses that did not come back, beside a fault that is always there."""
DISTURBED = 2
"""Whole sets without the blamed that must miss before somebody else is looked for: one is seen in good sets too."""
NAMED_STAGES = {Stage.PAIRS, Stage.SUSPECTS, Stage.MORE_PAIRS, Stage.PARTS}


def next_step(question: Question, results: Sequence[ExperimentResult]) -> Experiment | Blame:
    """
    Return the next experiment, or the blame where none is left to do.

    Pure: it looks at nothing but its arguments. Results of the stages `ALONE` and `WHOLE` that were measured before
    (by another check of the same gang) are used and not asked for again. The first step is every node alone, the second
    the whole set; where the whole set meets its floor, that is the end. What a node does alone is judged by the check
    that is about it; here it tells where in a blamed node the defect is.
    """
    case = _Case(question, results)
    if not case.of_stage(Stage.ALONE):
        return Experiment(Stage.ALONE, tuple((node,) for node in question.nodes), "every node by itself")
    if not case.of_stage(Stage.WHOLE):
        return Experiment(Stage.WHOLE, (question.nodes,), "the number that was bought")
    if not case.whole_missed:
        return Blame(missed=False, whole_gb_per_s=case.whole_gb_per_s)
    if len(question.nodes) == 2:
        return _two(question, case)
    return case.step()


def _two(question: Question, case: "_Case") -> Experiment | Blame:
    """Two nodes and one link: there is no third that could speak for either."""
    again = case.of_stage(Stage.PAIRS)
    if not again:
        return Experiment(Stage.PAIRS, (question.nodes,), "the only pair once more")
    one, other = question.nodes
    link = LinkBlame((one, other), again[0].symptom, again[0].median_gb_per_s)
    why = "of two nodes nobody can say which, or whether what lies between them: add a third"
    links = (link,) if missed(again[0]) else ()
    return Blame(True, links=links, whole_gb_per_s=case.whole_gb_per_s, unexplained=why, rounds=1)


@dataclass(frozen=True)
class _Accused:
    """Who is blamed at this point, and the set without them, in rank order."""

    suspicion: Suspicion
    scope: tuple[str, ...]
    runs: Runs
    """The runs that the blame does not explain."""


class _Case:
    """One question with the results so far."""

    def __init__(self, question: Question, results: Sequence[ExperimentResult]) -> None:
        self._question = question
        self._readings = read(question.floors, results)
        self._results = results
        self._runs = Runs.of(self._readings)
        wholes = self.of_stage(Stage.WHOLE)
        self.whole_missed = bool(wholes) and missed_floor(wholes[0])
        self.whole_gb_per_s = wholes[0].median_gb_per_s if wholes else None
        self.rounds = sum(
            result.experiment.stage in NAMED_STAGES or (result.experiment.stage is Stage.WHOLE and wholes[0].round < at)
            for at, result in enumerate(results)
        )

    def of_stage(self, stage: Stage) -> list[Reading]:
        """Return the readings of a stage."""
        return [reading for reading in self._readings if reading.stage is stage]

    def step(self) -> Experiment | Blame:
        """Return what follows from a whole set that missed."""
        accused = self._accused()
        if self.rounds >= self._most_rounds() or len(accused.scope) < 2:
            return self._end(accused, stands=False)
        wholes = self._wholes(accused.scope)
        if edges := self._unmeasured(accused.scope, wholes):
            return self._pairs(accused, edges)
        if accused.suspicion.open and not self._may_be_chance(accused, wholes):
            groups = try_again(accused.suspicion.open, accused.scope, self._question.leaf, accused.runs)
            if groups:
                return Experiment(Stage.SUSPECTS, tuple(groups), "what missed again, together and with good partners")
        if not any(run.state is State.MET for runs in self._runs.by_pair.values() for run in runs):
            return self._end(accused, stands=False)
        return self._whole_again(accused, wholes)

    def _may_be_chance(self, accused: _Accused, wholes: list[Reading]) -> bool:
        """Say whether the set without the blamed should tell at once if the misses left open matter to anybody."""
        if accused.scope == self._question.nodes or self._slow(accused.scope, wholes):
            return False
        runs = accused.runs
        return all(
            runs.misses(pair) == 1 and all(runs.mets(node, without=other) for node, other in permutations(pair))
            for pair in accused.suspicion.open
        )

    def _most_rounds(self) -> int:
        asked = self._question.rounds
        return PATIENCE * rounds_at_most(len(self._question.nodes)) if asked is None else asked

    def _accused(self) -> _Accused:
        alone = [reading.nodes[0] for reading in self.of_stage(Stage.ALONE) if missed(reading)]
        found = accuse(self._runs, self._question.leaf, alone)
        scope = self._without(found)
        if self.of_stage(Stage.PARTS):
            step = self._search(scope)
            if isinstance(step, Found) and len(step.parts[0]) + len(step.parts[1]) > 2:
                _add(found, step, self._question.leaf)
                gone = set(_smaller(step.parts))
                scope = tuple(node for node in scope if node not in gone)
        leaf, inside = self._question.leaf, set(scope)
        found.open = [pair for pair in found.open if pair <= inside]
        return _Accused(found, scope, self._runs.without(lambda pair: found.explains(pair, leaf)))

    def _without(self, found: Suspicion) -> tuple[str, ...]:
        """Leave out the blamed: of a link the end with more blamed links, of two leaves the smaller."""
        gone = set(found.nodes)
        ends = [node for pair in found.links for node in pair]
        for pair in found.links:
            if not pair & gone:
                gone.add(max(sorted(pair), key=ends.count))
        for leaves in found.fabric:
            members = [[node for node in self._question.nodes if self._question.leaf.get(node) == at] for at in leaves]
            if not any(gone.issuperset(nodes) for nodes in members):
                gone |= set(_smaller(sorted(members, reverse=True)))
        return tuple(node for node in self._question.nodes if node not in gone)

    def _search(self, scope: tuple[str, ...]) -> Found | Ask | GaveUp:
        searched = [reading for reading in self._readings if len(reading.nodes) > 1]
        return Search(searched).step(parts_of(scope, self._question.leaf))

    def _wholes(self, scope: tuple[str, ...]) -> list[Reading]:
        return [
            reading
            for reading in self._readings
            if reading.nodes == scope and reading.stage in {Stage.WHOLE, Stage.COUNTERFACTUAL}
        ]

    def _slow(self, scope: tuple[str, ...], wholes: Iterable[Reading]) -> bool:
        """Say whether a set missed often enough to be looked into: everybody once, a set without the blamed twice."""
        misses = sum(map(missed_floor, wholes))
        return misses >= (1 if scope == self._question.nodes else DISTURBED)

    def _unmeasured(self, scope: tuple[str, ...], wholes: Iterable[Reading]) -> list[tuple[str, str]]:
        """Return the links of the set's ring that no pair has measured, of the set that is known to miss."""
        if not self._slow(scope, wholes):
            return []
        return [edge for edge in ring(scope) if not self._runs.together(frozenset(edge))]

    def _pairs(self, accused: _Accused, edges: list[tuple[str, str]]) -> Experiment:
        busy: set[str] = set()
        groups = matching(edges, busy)
        if 2 * len(busy) < len(accused.scope):
            free = [node for node in accused.scope if node not in busy]
            pairs = [pair for pair in accused.suspicion.open if not pair & busy]
            groups += try_again(pairs, free, self._question.leaf, accused.runs)
        return Experiment(Stage.PAIRS, tuple(groups), "pairs over the links that the whole set's ring crosses")

    def _whole_again(self, accused: _Accused, wholes: list[Reading]) -> Experiment | Blame:
        everybody = accused.scope == self._question.nodes
        stage = Stage.WHOLE if everybody else Stage.COUNTERFACTUAL
        again = Experiment(
            stage, (accused.scope,), "the whole set" if everybody else "the whole set without the blamed"
        )
        misses = [reading for reading in wholes if missed_floor(reading)]
        mets = len(wholes) - len(misses)
        if not everybody and len(misses) < DISTURBED:
            needed = SURE + 1 if misses else _needed(accused)
            return self._end(accused, stands=True) if mets >= needed else again
        more = self._more_pairs_after(misses[0].round)
        repeated = wholes[wholes.index(misses[0]) + 1 :]
        if not more:
            return self._any_pairs(accused)
        if not repeated:
            return again
        if missed_floor(repeated[-1]):
            step = self._search(accused.scope)
            if isinstance(step, Ask):
                return Experiment(Stage.PARTS, step.groups, "every pair is good: which parts are slow together?")
            return self._end(accused, stands=False)
        if len(more) < SURE:
            return self._any_pairs(accused)
        return again if more[-1] > repeated[-1].round else self._end(accused, stands=not everybody)

    def _more_pairs_after(self, since: int) -> list[int]:
        """Return the rounds of other pairs after an experiment."""
        stages = [result.experiment.stage for result in self._results]
        return [at for at, stage in enumerate(stages) if at > since and stage is Stage.MORE_PAIRS]

    def _any_pairs(self, accused: _Accused) -> Experiment:
        question = self._question
        seed = question.seed * 1_000 + len(self._results)
        groups = within_leaves(accused.scope, question.leaf, accused.runs, seed)
        return Experiment(Stage.MORE_PAIRS, tuple(groups), "other pairs, for what comes and goes")

    def _end(self, accused: _Accused, *, stands: bool) -> Blame:
        found, wholes = accused.suspicion, self._wholes(accused.scope)
        everybody = accused.scope == self._question.nodes
        return Blame(
            missed=True,
            nodes=tuple(found.nodes[node] for node in sorted(found.nodes)),
            links=tuple(found.links[pair] for pair in sorted(found.links, key=sorted)),
            fabric=tuple(found.fabric[pair] for pair in sorted(found.fabric, key=sorted)),
            seen_once=(*found.seen_once, *self._let_go(accused, stands=stands)),
            whole_gb_per_s=self.whole_gb_per_s,
            without_gb_per_s=None if everybody or not wholes else wholes[-1].median_gb_per_s,
            stands=stands,
            unexplained="" if stands else self._open_question(accused, wholes),
            rounds=self.rounds,
        )

    def _let_go(self, accused: _Accused, *, stands: bool) -> Iterable[SeenOnce]:
        """Return the misses left open that turned out not to matter: the set that they are part of meets its floor."""
        for pair in accused.suspicion.open if stands else ():
            one, other = sorted(pair)
            first = next(filter(missed, accused.runs.by_pair[pair]))
            yield SeenOnce((one, other), first.stage, first.symptom, first.median_gb_per_s)

    def _open_question(self, accused: _Accused, wholes: list[Reading]) -> str:
        if len(accused.scope) < 2:
            return "fewer than two nodes are left without the blamed: there is no whole set to compare with"
        if not any(run.state is State.MET for runs in self._runs.by_pair.values() for run in runs):
            return "no pair met its floor: there is no good node to compare with"
        if self.rounds >= self._most_rounds():
            return f"not settled within {self.rounds} rounds: {_words(accused.suspicion.open)}"
        if not missed_floor(wholes[-1]):
            return f"the whole set missed its floor once and met it {len(wholes) - 1} times since; no pair is slow"
        return "the whole set misses its floor again and again, and no node, pair or pair of parts explains it"


def missed_floor(reading: Reading) -> bool:
    """Say whether the judged statistic of a group missed: repeats that flicker are a hint, not a miss of the whole."""
    return reading.state is State.MISSED


def _needed(accused: _Accused) -> int:
    found = accused.suspicion
    blamed: list[NodeBlame | LinkBlame | FabricBlame] = [*found.nodes.values(), *found.links.values()]
    blamed += found.fabric.values()
    if any(one.intermittent for one in blamed) or any(accused.runs.misses(pair) > 1 for pair in found.open):
        return SURE
    return TWICE if found.open else 1


def _smaller(parts: Sequence[Sequence[str]]) -> Sequence[str]:
    return min(parts, key=len)


def _words(pairs: Iterable[frozenset[str]]) -> str:
    return ", ".join(" - ".join(sorted(pair)) for pair in pairs) or "the whole set"


def _add(found: Suspicion, step: Found, leaf: Mapping[str, str]) -> None:
    one, other = step.parts
    worst = step.readings[0]
    names = (leaf[one[0]], leaf[other[0]])
    found.fabric[frozenset(names)] = FabricBlame(names, worst.symptom, worst.median_gb_per_s)
