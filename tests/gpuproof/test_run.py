"""A run between its questions and its verdicts; only the pods are played, by what each node would have measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof import launch
from gpuproof.catalogue import Check, TestCase
from gpuproof.cluster.port import NAMESPACES, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.decision import DecisionOutcome, VerdictLine
from gpuproof.expectation import CheckState, Dataset, GeneratedSource, State
from gpuproof.jobs import OnResult, SweepRequest, Visited
from gpuproof.limits import Limit, MinFraction, Per, Reference, Unique
from gpuproof.options import Options
from gpuproof.plan import make_plan
from gpuproof.profile import Profile
from gpuproof.record import Recorder
from gpuproof.run import Run
from gpuproof.setting import Setting
from gpuproof.suite import NodeSubject
from gpuproof.verdict import Judgement, Verdict
from gpuproof.visits import Timings
from tests.gpuproof.judging import limit, measurement, sample
from tests.gpuproof.profiles import GOOD, load
from tests.gpuproof.toy_cluster import ToyCluster, node
from workloads.contract import Measurement

NODES = ("n1", "n2", "n3", "n4")
UNIQUE = limit(Unique(), fact="uuid", check="words")


def check(name: str, *requires: str) -> Check:
    return Check(name, Path(f"test_{name}.py"), "Why?", requires, (TestCase("test_it", "", ("node",), (name,)),))


class Rehearsed(Run):
    """A run whose pods answer from a table, one after another."""

    answers: Mapping[str, Measurement] = {}
    swept: tuple[str, ...] = ()

    def sweep(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        self.swept += request.candidates
        for name in request.candidates:
            on_result(Visited(name, "pod", 0, self.answers[name], Timings(1, 2, 3)))
            stop.wait(0.02)  # whoever does not wait for all of them judges too early


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return load(tmp_path, GOOD)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "record.jsonl") as opened:
        yield opened


def prepared(profile: Profile, recorder: Recorder, *checks: Check) -> Rehearsed:
    """A run that has planned its nodes."""
    cluster = ToyCluster({name: node(name) for name in NODES})
    run = Rehearsed(Setting("run", profile, checks, (), simulated=True), cluster, recorder)
    run.questions.sweep = run.sweep
    run.verdicts.plan = make_plan(checks, profile, NODES)
    run.verdicts.asked = {(item.name, node) for item in checks for node in NODES}
    return run


def states(profile: Profile, **states: State) -> Profile:
    return replace(profile, checks={name: CheckState(state, "why") for name, state in states.items()})


def judged(run: Rehearsed, name: str) -> Judgement:
    answer = run.questions.ask("words", "words", NodeSubject(name))
    return run.judge("words", name, [answer], time.monotonic())


class TestPrerequisites:
    CHAIN = (check("a"), check("b", "a"), check("c", "b"))
    REQUIRED, RECORDED, NOT_APPLICABLE = State.REQUIRED, State.RECORDED, State.NOT_APPLICABLE

    def chain(self, profile: Profile, recorder: Recorder, a: State, b: State) -> Rehearsed:
        return prepared(states(profile, a=a, b=b, c=State.REQUIRED), recorder, *self.CHAIN)

    @pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASS])
    def test_a_required_one_that_did_not_pass_blocks(
        self, profile: Profile, recorder: Recorder, verdict: Verdict
    ) -> None:
        run = self.chain(profile, recorder, self.REQUIRED, self.REQUIRED)
        run.verdicts.settle("b", "n1", Judgement(verdict))
        got = run.verdicts.settled("c", "n1")
        assert got is not None
        assert (got.verdict, got.reasons) == (Verdict.NOT_RUN, (f"not run: it needs b, which is {verdict} here",))
        assert run.verdicts.settled("c", "n2") is None

    @pytest.mark.parametrize(
        ("state", "verdict"), [(RECORDED, Verdict.RECORDED), (NOT_APPLICABLE, Verdict.NOT_APPLICABLE)]
    )
    def test_one_that_the_profile_does_not_require_does_not(
        self, profile: Profile, recorder: Recorder, state: State, verdict: Verdict
    ) -> None:
        run = self.chain(profile, recorder, self.REQUIRED, state)
        run.verdicts.settle("a", "n1", Judgement(Verdict.PASS))
        run.verdicts.settle("b", "n1", Judgement(verdict))
        assert run.verdicts.settled("c", "n1") is None

    @pytest.mark.parametrize("state", [RECORDED, NOT_APPLICABLE])
    def test_what_that_one_needs_still_does(self, profile: Profile, recorder: Recorder, state: State) -> None:
        run = self.chain(profile, recorder, self.REQUIRED, state)
        run.verdicts.settle("a", "n1", Judgement(Verdict.FAIL))
        run.verdicts.settle("c", "n1", run.verdicts.settled("c", "n1") or Judgement(Verdict.PASS))
        assert (run.verdicts.judged["c", "n1"].verdict, run.verdicts.judged["c", "n1"].blocked_by) == (
            Verdict.NOT_RUN,
            "a",
        )


def test_a_check_that_stages_is_not_run_where_the_profile_names_no_dataset(
    profile: Profile, recorder: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "stages.py").write_text('POD = {"dataset": True}\n')
    (tmp_path / "other.py").write_text("")
    checks = (check("stages"), check("other"))
    state = states(profile, stages=State.REQUIRED, other=State.REQUIRED)
    run = prepared(state, recorder, *checks)
    run.verdicts.setting = replace(run.setting, folders=(tmp_path,))
    got = run.verdicts.settled("stages", "n1")
    assert got is not None
    assert (got.verdict, got.reason_code) == (Verdict.NOT_RUN, "no_dataset")
    assert 'source = "generated"' in got.reasons[0]
    assert run.verdicts.settled("other", "n1") is None
    run.verdicts.setting = replace(run.setting, profile=replace(state, dataset=Dataset(GeneratedSource(), ())))
    assert run.verdicts.settled("stages", "n1") is None


def held_to(profile: Profile, *limits: Limit) -> Profile:
    return states(replace(profile, limits=limits), words=State.REQUIRED)


class TestFleet:
    @staticmethod
    def uuids(**values: str) -> dict[str, Measurement]:
        return {name: measurement(sample(500), facts={"uuid": value}, node=name) for name, value in values.items()}

    def test_one_machine_under_two_names_fails_under_both(self, profile: Profile, recorder: Recorder) -> None:
        run = prepared(held_to(profile, UNIQUE), recorder, check("words"))
        run.answers = self.uuids(n1="a", n2="b", n3="a", n4="d")
        got = {name: judged(run, name) for name in NODES}
        assert [got[name].verdict for name in NODES] == [Verdict.FAIL, Verdict.PASS, Verdict.FAIL, Verdict.PASS]
        assert got["n1"].reasons[0].endswith("also on n3")
        assert got["n3"].reasons[0].endswith("also on n1")

    def test_nobody_is_compared_before_all_have_answered(self, profile: Profile, recorder: Recorder) -> None:
        for held, verdict in (
            (UNIQUE, Verdict.FAIL),
            (limit(MinFraction(0.9, Reference.FLEET_MEDIAN), check="words"), Verdict.PASS),
        ):
            run = prepared(held_to(profile, held), recorder, check("words"))
            run.answers = self.uuids(n1="a", n2="b", n3="c", n4="a")
            assert judged(run, "n1").verdict is verdict
            assert run.swept == NODES

    def resumed(self, profile: Profile, recorder: Recorder, *limits: Limit) -> Rehearsed:
        """`n1` to `n3` passed before; `n4` measured something, was not settled and is asked now."""
        earlier = self.uuids(n1="a", n2="b", n3="c")
        held = frozenset(item.id for item in limits)
        run = prepared(held_to(profile, *limits), recorder, check("words"))
        run.verdicts.taken_over = {("words", n): VerdictLine("words", n, Verdict.PASS, held=held) for n in earlier}
        measured = {("words", n): (found,) for n, found in earlier.items()}
        run.verdicts.measured_earlier = measured | {("words", "n4"): (measurement(facts={"uuid": "d"}),)}
        return run

    @pytest.mark.parametrize(("value", "verdict"), [("b", Verdict.FAIL), ("d", Verdict.PASS)])
    def test_a_resumed_run_compares_with_what_was_settled(
        self, profile: Profile, recorder: Recorder, value: str, verdict: Verdict
    ) -> None:
        run = self.resumed(profile, recorder, UNIQUE)
        run.answers = self.uuids(n4=value)
        assert judged(run, "n4").verdict is verdict
        assert run.swept == ("n4",)

    @pytest.mark.parametrize(("value", "verdict"), [(449, Verdict.FAIL), (450, Verdict.PASS)])
    def test_a_resumed_run_has_the_fleet_it_had(
        self, profile: Profile, recorder: Recorder, value: float, verdict: Verdict
    ) -> None:
        relative = limit(MinFraction(0.9, Reference.FLEET_MEDIAN), check="words")
        run = self.resumed(profile, recorder, relative)
        run.answers = {"n4": measurement(sample(value), node="n4")}
        assert judged(run, "n4").verdict is verdict

    def test_a_settled_verdict_remembers_what_it_was_held_to(self, profile: Profile, recorder: Recorder) -> None:
        run = self.resumed(profile, recorder, UNIQUE)
        again = run.verdicts.settled("words", "n1")
        assert again is not None
        run.verdicts.settle("words", "n1", again)
        assert run.verdicts.judged["words", "n1"].held == {UNIQUE.id}

    @pytest.mark.parametrize(
        ("idle", "outcome"),
        [((), DecisionOutcome.ACCEPTED), ((limit(per=Per.CLUSTER, check="words"),), DecisionOutcome.UNDECIDED)],
    )
    def test_a_limit_that_nobody_was_held_to_forbids_acceptance(
        self, profile: Profile, recorder: Recorder, idle: tuple[Limit, ...], outcome: DecisionOutcome
    ) -> None:
        run = prepared(held_to(profile, UNIQUE, *idle), recorder, check("words"))
        run.answers = self.uuids(n1="a", n2="b", n3="c", n4="d")
        for name in NODES:
            judged(run, name)
        assert run.close().outcome is outcome


class KnownCluster(ToyCluster):
    """A toy that says who it is, and that it is none to pay for."""

    def server_version(self) -> str:
        return "v1.36.2+simcluster"

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw:
        if (resource, name) == (NAMESPACES, "kube-system"):
            return {"metadata": {"uid": "uid-of-the-cluster"}}
        return super().get(resource, name, namespace=namespace)


SITE = """\
schema  = 1
profile = "site"
extends = "simulated"
[scope]
pool = { pool = "a" }
"""


def test_a_resumed_run_is_given_the_verdicts_and_the_measurements_of_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, out = tmp_path / "site.toml", tmp_path / "run"
    site.write_text(SITE)
    monkeypatch.setattr(launch, "reach", lambda _: (KnownCluster.of(4), None))
    options = Options(profile=site, run_id="first", out=out)
    first = launch.launch(options)
    found = measurement(sample(500), facts={"pod_gpu_uuid": ["a", "b"]}, node="n0")
    first.run.questions.took("gpu_inventory", "gpu_inventory", Visited("n0", "pod", 0, found, Timings(1, 2, 3)))
    first.run.verdicts.settle("gpu_inventory", "n0", Judgement(Verdict.PASS))
    first.finish(interrupted=True)

    again = launch.launch(replace(options, run_id="again", resume=out))

    again.finish(interrupted=True)
    key = ("gpu_inventory", "n0")
    assert again.run.verdicts.judged[key].verdict is Verdict.PASS
    assert again.run.verdicts.measured_earlier[key][0].facts == found.facts
