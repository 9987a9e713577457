"""All experiments of the network checks on one gang, in order, each answered as soon as it is known.

Owns the order: every node alone, the whole set, the ladder, transport in pairs, and where the whole misses its floor
the localisation. It must not know a verdict or pytest; floors are values that say whether to look for whom to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuproof import gang_blame, gang_results
from gpuproof.cluster import raw
from gpuproof.cluster.port import ClusterError
from gpuproof.expectation import Scalar
from gpuproof.failure import JobFailure, Reason
from gpuproof.gang_pairs import ladder, rounds_of_pairs
from gpuproof.gang_params import Params
from gpuproof.gang_results import Asked
from gpuproof.gang_session import Assembly, GangError, GangSession, Order
from gpuproof.gang_transport import witnesses
from gpuproof.gang_wire import GroupPart
from gpuproof.localisation import Blame, Experiment, ExperimentResult, Floors, Question, Stage, next_step
from gpuproof.suite import Answer
from workloads.contract import Sample

CLUSTER = "cluster"
NODE_STAGES = frozenset({"alone", "transport"})
"""Stages that answer for each node; the others answer for the cluster."""
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}

Publish = Callable[[str, str, Answer], None]
"""Stage, subject and what came of it."""


@dataclass(frozen=True)
class SuiteRequest:
    """What is asked of the gang: parameters by stage (only those that are asked), and what the profile promises."""

    params: Mapping[str, Params]
    run_id: str
    device: str
    ranks_per_node: int
    ring_ceiling_gb_per_s: float | None
    rdma_resource: str | None
    floors: Floors | None
    leaf: Mapping[str, str] = field(default_factory=dict)


@dataclass
class GangSuite:
    """One run through all stages. `run` answers every stage for every subject exactly once, whatever happens."""

    session: GangSession
    request: SuiteRequest
    nodes: Sequence[str]
    publish: Publish
    _answered: set[tuple[str, str]] = field(default_factory=set)
    _results: list[ExperimentResult] = field(default_factory=list)
    _whole: tuple[GroupPart, Asked] | None = None
    _spread: tuple[Sample, ...] = ()

    def run(self) -> None:
        """Everything that is asked; the session is closed, and its GPUs are free, when it returns."""
        failure = JobFailure(Reason.HARNESS_ERROR, "the gang ended without a word about this")
        try:
            self._run()
        except GangError as error:
            failure = error.failure
        finally:
            self.session.close()
            self._answer_all(failure)

    def _run(self) -> None:
        assembly = self.session.assemble(though_not_whole="alone" in self.request.params)
        for node, failure in assembly.missing.items():
            self.session.lost.setdefault(node, failure)
        present = [node for node in self.session.present if node not in assembly.missing]
        if present and "alone" in self.request.params:
            self.alone(present)
        if assembly.whole:
            self.measure()
        else:
            self._not_whole(assembly)

    def measure(self) -> None:
        """All stages of a whole gang but the first; the session stays open."""
        for stage, work in (
            ("whole", self._all_together),
            ("ladder", self._ladder),
            ("transport", self._transport),
            ("localisation", self._localise),
        ):
            if stage in self.request.params:
                work(self.request.params[stage])

    # -- answering -----------------------------------------------------------------------------------------------------

    def _answer(self, stage: str, subject: str, answer: Answer) -> None:
        if stage in self.request.params and (stage, subject) not in self._answered:
            self._answered.add((stage, subject))
            self.publish(stage, subject, answer)

    def _answer_all(self, failure: JobFailure) -> None:
        for stage in self.request.params:
            for subject in self.nodes if stage in NODE_STAGES else [CLUSTER]:
                self._answer(stage, subject, failure)

    def _not_whole(self, assembly: Assembly) -> None:
        for node, failure in assembly.missing.items():
            self._answer("alone", node, failure)
            self._answer("transport", node, failure)
        first = next(iter(assembly.missing.values()))
        who = "; ".join(f"{node}: {failure.message}" for node, failure in list(assembly.missing.items())[:4])
        count = f"{len(self.nodes) - len(assembly.missing)} of {len(self.nodes)} nodes came"
        said = f"the gang is not whole, {count}, and its GPUs were released; missing {who}"
        for node in self.nodes:
            self._answer("transport", node, JobFailure(Reason.UNVISITED, f"not reached: {said}"))
        self._answer_all(JobFailure(first.reason, said, first.evidence))

    # -- experiments ---------------------------------------------------------------------------------------------------

    def _experiment(
        self, groups: Sequence[Sequence[str]], params: Params, env: Mapping[str, str] | None = None
    ) -> list[tuple[GroupPart, Asked]]:
        order = Order(
            groups=tuple(map(tuple, groups)),
            ranks_per_node=self.request.ranks_per_node,
            timeout_s=params.experiment_timeout_s,
            params={**params.order(), "device": self.request.device, "env": dict(env or {})},
        )
        asked = [
            Asked({self.session.index(node): node for node in group}, self.request.ranks_per_node, params.points)
            for group in groups
        ]
        return list(zip(self.session.run(order), asked, strict=True))

    def _measured(self, part: GroupPart, asked: Asked, node: str = "", extra: Sequence[Sample] = ()) -> Answer:
        """The answer of one group; a lost node is told with what the API says of it."""
        refused = gang_results.refusal(part, asked)
        if refused is not None:
            return refused
        lost = [one for one in asked.nodes.values() if one in self.session.lost]
        if part.outcome != gang_results.MEASURED and lost == list(asked.nodes.values()):
            return self.session.lost[lost[0]]
        found = gang_results.measurement(part, asked, self.request.run_id, node, extra=extra)
        known = [f"{one}: {self.session.lost[one].message}" for one in lost]
        if not known:
            return found
        return replace(found, facts={**found.facts, "outcome": f"{found.facts['outcome']}; {'; '.join(known)}"})

    def alone(self, present: Sequence[str]) -> None:
        """Every node by itself, all at once, and once more with peer-to-peer off; for a gang that is not whole, too."""
        params = self.request.params["alone"]
        groups = self._experiment([[node] for node in present], params)
        off = self._experiment([[node] for node in present], params, P2P_OFF) if params.p2p_off else []
        for place, (part, asked) in enumerate(groups):
            (node,) = asked.nodes.values()
            extra = _renamed(off[place]) if off else ()
            self._answer("alone", node, self._measured(part, asked, node, extra))
        self._spread = gang_results.node_spread(groups, params.main)
        experiment = Experiment(Stage.ALONE, tuple((node,) for node in present), "asked by a check of its own")
        self._results.append(self._for_planner(experiment, groups, "all_reduce", params.main))

    def _all_together(self, params: Params) -> None:
        ((part, asked),) = self._experiment([self.nodes], params)
        self._whole = (part, asked)
        self._answer("whole", CLUSTER, self._measured(part, asked, extra=self._spread))
        experiment = Experiment(Stage.WHOLE, (tuple(self.nodes),), "asked by a check of its own")
        self._results.append(self._for_planner(experiment, [(part, asked)], "all_reduce", params.main))

    def _ladder(self, params: Params) -> None:
        """Each step alone; the last is the whole set. A step that breaks ends the ladder."""
        found: list[Sample] = []
        before: dict[tuple[str, int], float] = {}
        last: tuple[GroupPart, Asked] | None = None
        for step in ladder(len(self.nodes)):
            ((part, asked),) = self._experiment([list(self.nodes)[:step]], params)
            last = (part, asked)
            if part.outcome != gang_results.MEASURED or gang_results.refusal(part, asked):
                break
            found += _steps(part, asked, step, before, self.request.ring_ceiling_gb_per_s)
        if last is None:
            self._answer("ladder", CLUSTER, JobFailure(Reason.UNVISITED, "one node has no ladder"))
            return
        answer = self._measured(*last)
        if not isinstance(answer, JobFailure):
            steps: list[Scalar] = [str(step) for step in ladder(len(self.nodes))]
            answer = replace(answer, samples=tuple(found), facts={"outcome": answer.facts["outcome"], "steps": steps})
        self._answer("ladder", CLUSTER, answer)

    def _transport(self, params: Params) -> None:
        rounds: list[tuple[GroupPart, Asked]] = []
        for pairs in rounds_of_pairs(list(self.nodes), params.partners):
            rounds += self._experiment(pairs, params)
        try:
            granted = self.session.pods.granted()
        except ClusterError as error:
            raise GangError(JobFailure(error.reason, f"the gang's pods cannot be listed: {error.message}")) from error
        resource = self.request.rdma_resource or ""
        for node in self.nodes:
            held = raw.text(granted.get(node, {}), resource)
            self._answer("transport", node, self._witnesses(node, rounds, params, held))

    def _witnesses(self, node: str, rounds: Sequence[tuple[GroupPart, Asked]], params: Params, held: str) -> Answer:
        if len(self.nodes) < 2:
            said = "a node alone has nobody to exchange data with; ask it together with others"
            return JobFailure(Reason.UNVISITED, said)
        return witnesses(node, rounds, self.session.lost.get(node), params, self.request.run_id, held)

    # -- localisation --------------------------------------------------------------------------------------------------

    def _localise(self, params: Params) -> None:
        if self.request.floors is None:
            said = "no decisive floor of busbw for all nodes together: nothing says whether anybody is to blame"
            self._answer("localisation", CLUSTER, JobFailure(Reason.HARNESS_ERROR, f"{said}; add a [[limit]]"))
            return
        question = Question(tuple(self.nodes), self.request.floors, leaf=self.request.leaf)
        at_main = params.only("all_reduce", self._main_of(params))
        while isinstance(step := next_step(question, self._results), Experiment):
            groups = self._experiment(step.groups, at_main)
            self._results.append(self._for_planner(step, groups, "all_reduce", at_main.main))
        self._answer("localisation", CLUSTER, self._blamed(step))

    def _main_of(self, params: Params) -> int:
        whole = self.request.params.get("whole")
        return whole.main if whole is not None else params.main

    def _for_planner(
        self, experiment: Experiment, groups: Sequence[tuple[GroupPart, Asked]], collective: str, size: int
    ) -> ExperimentResult:
        return ExperimentResult(
            experiment, tuple(gang_blame.group_result(part, asked, collective, size) for part, asked in groups)
        )

    def _blamed(self, blame: Blame) -> Answer:
        why = {node: failure.message for node, failure in self.session.lost.items()}
        for node in self.nodes:
            hello = self.session.hello(node)
            down = [f"{name} is {state}" for name, active, state in hello.ports if not active] if hello else []
            if down:
                why.setdefault(node, f"its port {', '.join(down)}")
        facts = gang_blame.blame_facts(blame, why)
        whole = self._whole
        environment = {"floor": f"{self.request.floors.whole.min_gb_per_s:g} GB/s"} if self.request.floors else {}
        return gang_results.plain(
            self.request.run_id,
            world_size=len(self.nodes) * self.request.ranks_per_node,
            hosts=whole[0].hosts if whole else len(self.nodes),
            samples=(*gang_blame.blame_samples(blame), *gang_blame.pair_samples(self._results)),
            facts=facts,
            environment=environment,
        )


def _renamed(group: tuple[GroupPart, Asked]) -> tuple[Sample, ...]:
    """The same numbers of a run with peer-to-peer off, under their own metric."""
    return tuple(
        Sample("busbw_p2p_off", sample.value, sample.unit, sample.at)
        for sample in gang_results.samples(*group)
        if sample.metric == "busbw"
    )


def _steps(
    part: GroupPart, asked: Asked, step: int, before: dict[tuple[str, int], float], ceiling: float | None
) -> list[Sample]:
    """A step's busbw, its share of the ring's ceiling, and how much of the step before is left."""
    found = []
    for sample in gang_results.samples(part, asked):
        if sample.metric == "wrong_elements":
            found.append(Sample(sample.metric, sample.value, sample.unit, {**sample.at, "nodes": step}))
        if sample.metric != "busbw":
            continue
        point = (str(sample.at["collective"]), int(sample.at["bytes"]))
        at = {**sample.at, "nodes": step}
        found.append(Sample("busbw", sample.value, "GB/s", at))
        if ceiling:
            found.append(Sample("ring_efficiency", sample.value / ceiling, "1", at))
        if point in before:
            found.append(Sample("step_efficiency", sample.value / before[point], "1", at))
        before[point] = sample.value
    return found
