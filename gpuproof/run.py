"""One acceptance run from the first look at the cluster to the decision: joins everything, judges nothing.

It must not know pytest; the plugin and the command line drive it.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from gpuproof import __version__, final_look, gang_requests
from gpuproof.baseline import Baseline
from gpuproof.catalogue import TRAINING, Check
from gpuproof.claim_trial import ClaimTrial
from gpuproof.cluster import raw
from gpuproof.cluster.port import NAMESPACES, NODES, PODS, Cluster, ClusterError
from gpuproof.conclusion import conclude
from gpuproof.decision import NOT_SELECTED, Decision, Key, VerdictLine, decide
from gpuproof.describe import plain
from gpuproof.expectation import CoverShare, State
from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context
from gpuproof.fleet import fleet_medians, seen_values
from gpuproof.gang_pods import NAME as GANG
from gpuproof.gang_results import WORKLOAD as GANG_WORKLOAD
from gpuproof.gang_session import GangSession
from gpuproof.gang_suite import GangSuite
from gpuproof.gangs import Gang
from gpuproof.image_pull import pull_of
from gpuproof.inventory import Inventory, Node, gpus_in_use, read_inventory
from gpuproof.jobs import NotVisited, OnResult, RunNamespace, StartedJob, Sweeper, SweepRequest, Timings, Visited
from gpuproof.manifests import WORKLOADS, PodSettings, Renderer, TrainingJob
from gpuproof.observation import LABEL_FACT, RDMA_OFFER, observe_cluster, observe_node
from gpuproof.plan import Plan, judge_coverage, make_plan, scope_labels
from gpuproof.pod_shape import read_shape
from gpuproof.profile import Profile
from gpuproof.rdma_attachment import unnamed
from gpuproof.record import Recorder
from gpuproof.resume import Circumstances, Earlier
from gpuproof.run_record import FINAL_LOOK, RunRecord
from gpuproof.run_trainings import begin_trainings, training_setup
from gpuproof.suite import Answer, ClusterSubject, NodeSubject, Subject
from gpuproof.sweeps import Sweep
from gpuproof.telemetry.observer import Observer
from gpuproof.trainings import Trainings
from gpuproof.verdict import BLOCKED, NOTHING_JUDGED, Judgement, Verdict, blocked, judge_failure
from workloads.contract import Measurement

NO_DATASET = "no_dataset"
Fleet = dict[str, list[Measurement]]
"""All that was measured for one check, by subject."""

SWEEP_END_WITHIN_S = 30.0
CLEANUP_WITHIN_S = 120.0


@dataclass(frozen=True)
class Setting:
    """What a run is made with, before the cluster is asked anything."""

    run_id: str
    profile: Profile
    checks: tuple[Check, ...]
    argv: tuple[str, ...]
    simulated: bool
    folders: tuple[Path, ...] = (WORKLOADS,)
    """Where the programs of the checks are."""
    narrowed: str | None = None
    """How the command line cut the run down (one check, one node), in words; None for the whole."""
    baseline: Baseline | None = None
    """The earlier run that limits are relative to."""


class Run:
    """A run in progress. Create it, `open` it, ask and judge, and always `close` it."""

    def __init__(self, setting: Setting, cluster: Cluster, recorder: Recorder) -> None:
        self.setting = setting
        self.cluster = cluster
        self.record = RunRecord(recorder)
        self.stop = threading.Event()
        self.judged: dict[Key, VerdictLine] = {}
        self.asked: Collection[Key] = ()
        """What was selected to be asked; set before the first question."""
        self._taken_over: Mapping[Key, VerdictLine] = {}
        self._measured_earlier: Mapping[Key, tuple[Measurement, ...]] = {}
        self._handed_out: dict[Key, list[Answer]] = {}
        self._observed: set[str] = set()
        """Checks that asked the API about a node: what it says of the others is known without asking."""
        self._gathered: tuple[tuple[str, int, bool], Fleet, Mapping[str, Mapping[str, tuple[str, ...]]]] | None = None
        self._held: dict[Key, Judgement] = {}
        self.decision: Decision | None = None
        self._began = time.monotonic()
        self._late = False
        self._alarm = threading.Timer(setting.profile.deadlines.run_s, self._out_of_time)
        self._alarm.daemon = True
        self._sweeps: dict[tuple[str, str], Sweep] = {}
        self._gang: Gang | None = None
        self._namespace: RunNamespace | None = None
        self._renderer = renderer(setting)
        self._telemetry = Observer(
            cluster,
            setting.profile.telemetry,
            run_id=setting.run_id,
            namespace=self._renderer.namespace,
        )
        self._one_sweep = threading.Lock()
        self._sweeper: Sweeper | None = None
        self._trainings: Trainings | None = None
        self._running: SweepRequest | None = None
        self._inventory = Inventory({})
        self._version = self._uid = ""
        self._pool_size = 0
        self._nodes: dict[str, Node] = {}
        self.plan = Plan((), (), 0)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def look(self) -> Circumstances:
        """Who the cluster and its nodes are; raises `ClusterError`, or `WrongClusterError` where it does not fit."""
        profile = self.setting.profile
        self._alarm.start()
        self._version = self.cluster.server_version()
        # The one identity that every cluster has and that no two share.
        self._uid = raw.text(self.cluster.get(NAMESPACES, "kube-system"), "metadata", "uid")
        self._inventory = self._read_nodes()
        self._pool_size = len(self._inventory.in_pool(profile.scope.pool))
        busy = self._busy()
        self._nodes = {n.name: n for n in self._inventory.in_pool(scope_labels(profile)) if n.name not in busy}
        if profile.needs_simulation and not self.simulated:
            raise WrongClusterError(
                f'{profile.path}: [cluster] device is "cpu", which only the simulated cluster has; {self.cluster.name} '
                'is a real one: set device = "cuda"'
            )
        baseline = self.setting.baseline
        if baseline is not None and baseline.simulated != self.simulated:
            raise WrongClusterError(
                f"the baseline, run {baseline.run}, says simulated = {baseline.simulated}, this cluster the opposite: "
                "their numbers say nothing about each other"
            )
        if ClusterSubject().name in self._nodes:
            raise WrongClusterError('a node of the pool is called "cluster", which is the name of the whole; rename it')
        rdma = profile.cluster.rdma
        if rdma is not None and (nameless := unnamed(rdma, self._rdma_offers(), str(profile.path))):
            raise WrongClusterError(nameless)
        return Circumstances(profile.sha256, __version__, self._uid, plain(profile.pod))

    def _rdma_offers(self) -> dict[str, list[str]]:
        return {node.name: list(node.rdma_offers) for node in self._nodes.values()}

    @property
    def node_names(self) -> list[str]:
        """The nodes in scope that exist."""
        return list(self._nodes)

    @property
    def simulated(self) -> bool:
        """Whether the cluster is a simulated one, by who started it or by its own word."""
        return self.setting.simulated or "simcluster" in self._version

    def begin(self, earlier: Earlier | None = None) -> None:
        """Plan, and write down what was found and what is asked; `earlier` is the run that is being continued."""
        profile = self.setting.profile
        if earlier is not None:
            self._taken_over = earlier.usable({name: node.uid for name, node in self._nodes.items()})
            self._measured_earlier = earlier.measurements
            self.judged = dict(self._taken_over)
        self.plan = make_plan(self.setting.checks, profile, list(self._nodes))
        cluster = {
            "name": self.cluster.name,
            "uid": self._uid,
            "server_version": self._version,
            "simulated": self.simulated,
        }
        scope = judge_coverage(self.plan, profile, {}, today=today()).text
        setting = self.setting
        self.record.started(setting.run_id, setting.argv, profile, setting.checks, self.plan, cluster, scope, today())
        self.record.looked(self._inventory, self._nodes, self._version)
        self.record.planned(self.plan)
        if setting.baseline is not None:
            self.record.baseline(setting.baseline)
        self._telemetry.begin(self._nodes, lambda scrapes: self.record.telemetry(self._running, scrapes))

    def _read_nodes(self) -> Inventory:
        listing = self.cluster.list_objects(NODES)
        bought = self.setting.profile.cluster
        return read_inventory(
            listing.items,
            gpu_resource=bought.gpu_resource,
            resource_version=listing.resource_version,
            rdma_resource=bought.rdma.resource if bought.rdma is not None else "",
        )

    def _busy(self) -> Mapping[str, int]:
        """Nodes whose GPUs others hold: a scope that covers a share of the pool asks the idle ones only."""
        profile = self.setting.profile
        if not isinstance(profile.scope.cover, CoverShare):
            return {}
        pods = self.cluster.list_objects(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
        return gpus_in_use(pods.items, gpu_resource=profile.cluster.gpu_resource)

    def _out_of_time(self) -> None:
        self._late = True
        self.stop.set()

    # -- asking --------------------------------------------------------------------------------------------------------

    def settled(self, check: str, subject: str) -> Judgement | None:
        """A verdict that needs no question: not applicable by the profile, blocked by a prerequisite, or resumed."""
        state = self.setting.profile.checks[check]
        if state.state is State.NOT_APPLICABLE:
            return Judgement(Verdict.NOT_APPLICABLE, reasons=(state.reason,))
        if self._lacks_dataset(check):
            text = (
                f"{self.setting.profile.path} has no [dataset]: nothing of yours can be staged; name one, or say "
                'source = "generated" if made-up data is meant'
            )
            return Judgement(Verdict.NOT_RUN, reasons=(text,), reason_code=NO_DATASET)
        if (check, subject) in self._taken_over:
            line = self._taken_over[check, subject]
            return Judgement(line.verdict, reasons=line.reasons, reason_code=line.reason_code)
        blocker, verdict = self._blocker(check, subject)
        return None if blocker is None or verdict is None else blocked(blocker, verdict)

    def _lacks_dataset(self, check: str) -> bool:
        """Whether the check stages a dataset and the profile names none: never a pass on data nobody asked for."""
        programs, folders = self._check(check).workloads, self.setting.folders
        return self.setting.profile.dataset is None and any(read_shape(name, folders).dataset for name in programs)

    def _blocker(self, check: str, subject: str) -> tuple[str | None, Verdict | None]:
        """The first required prerequisite that was judged on this subject and did not pass, with its verdict."""
        for needed in self._prerequisites(check):
            for one in self._stands_on(check, subject):
                line = self.judged.get((needed, one))
                if line is not None and line.verdict is not Verdict.PASS:
                    return needed, line.verdict
        return None, None

    def _stands_on(self, check: str, subject: str) -> Iterator[str]:
        """The subject itself, and for a gang each of its nodes: it is not whole where one of them is not fit for it."""
        yield subject
        if subject == ClusterSubject().name and self._check(check).asks_gang:
            yield from (node.name for node in self.plan.nodes)

    def _prerequisites(self, check: str) -> Iterator[str]:
        """What the profile requires of all that the check needs, also by way of what it does not require."""
        for needed in self._check(check).requires:
            if self.setting.profile.required(needed):
                yield needed
            else:
                yield from self._prerequisites(needed)

    def observe(self, check: str, subject: Subject) -> Answer:
        """What the API says of the subject."""
        if isinstance(subject, ClusterSubject):
            found = observe_cluster(self._pool_size, self.setting.run_id, self._nodes.values())
            return self._saw(check, subject, found)
        if subject.missing:
            return self._absent(check, subject)
        if check not in self._observed:
            # What the API says of all others is what one of them is compared with: it belongs into the record too.
            self._observed.add(check)
            for node in self._nodes.values():
                self.record.observed(check, node.name, self._observe_node(check, node))
        return self._hand_out(check, subject, self._observe_node(check, self._nodes[subject.name]))

    def _observe_node(self, check: str, node: Node) -> Measurement:
        names = [limit.name for limit in self.setting.profile.limits_for(check)]
        labels = [name.removeprefix(LABEL_FACT) for name in names if name.startswith(LABEL_FACT)]
        cluster = self.setting.profile.cluster
        rdma = cluster.rdma.resource if cluster.rdma is not None and RDMA_OFFER in names else ""
        return observe_node(node, self.setting.run_id, cluster.gpu_resource, labels, rdma)

    def _saw(self, check: str, subject: Subject, answer: Answer) -> Answer:
        if isinstance(answer, Measurement):
            self.record.observed(check, subject.name, answer)
        else:
            self.record.failed(check, "", subject.name, None, answer)
        return self._hand_out(check, subject, answer)

    def _absent(self, check: str, subject: NodeSubject) -> Answer:
        failure = self._missing(subject)
        self.record.failed(check, "", subject.name, None, failure)
        return self._hand_out(check, subject, failure)

    def ask(self, check: str, workload: str, subject: NodeSubject) -> Answer:
        """Run the workload once over every node of the check that can be asked; wait for this subject's answer."""
        if subject.missing:
            return self._absent(check, subject)
        sweep = self._sweeps.get((check, workload)) or self._start_sweep(check, workload)
        if sweep.request.call is not None:
            sweep.request.call.set()
        if self._compares_with_fleet(check):
            sweep.wait()
        return self._hand_out(check, subject, sweep.answer(subject.name))

    def kill_training(self, check: str, how: str, subject: ClusterSubject) -> Answer:
        """Have the run's training killed in this way; everything this run will ask for is one training's fate."""
        try:
            with self._one_sweep:
                self._in_namespace()
                if self._trainings is None:
                    self._trainings = self._begin_trainings()
                answer = self._trainings.answer(how)
        except ClusterError as error:
            answer = JobFailure(error.reason, error.message)
        if isinstance(answer, JobFailure):
            self.record.failed(check, TRAINING, subject.name, None, answer)
        else:
            nothing = Timings(0.0, 0.0, 0.0)
            self.record.measured(check, TRAINING, Visited(subject.name, answer.pod, -1, answer, nothing))
        story = self._trainings.evidence.get(how) if self._trainings is not None else None
        if story:
            self.record.log(check, subject.name, story)
        return self._hand_out(check, subject, answer)

    def _begin_trainings(self) -> Trainings:
        setup = training_setup(self.setting.profile, self._nodes, self.setting.folders)
        cluster = ClusterSubject().name

        def pending() -> list[str]:
            checks = [check for check in self.setting.checks if (check.name, cluster) in self.asked]
            return [how for check in checks if self.settled(check.name, cluster) is None for how in check.kills]

        def started(job: TrainingJob) -> None:
            deadlines = self.setting.profile.deadlines
            request = SweepRequest(job.check, job.workload, job.params, (), job.gpus, deadlines)
            self.record.job(request, StartedJob(job.name, (), False), self._renderer.namespace)

        return begin_trainings(self.cluster, self._renderer, setup, self.stop, pending, started)

    def ask_gang(self, check: str, stage: str, subject: Subject) -> Answer:
        """Have the gang do all that is asked of it, once; wait for what this stage says of this subject."""
        missing = [node for node in self.plan.nodes if node.missing]
        if isinstance(subject, NodeSubject) and subject.missing:
            return self._absent(check, subject)
        if isinstance(subject, ClusterSubject) and missing:
            return self._hand_out(check, subject, self._missing(missing[0]))
        if self._gang is None:
            self._gang = self._start_gang()
        if self._compares_with_fleet(check):
            self._gang.wait()
        return self._hand_out(check, subject, self._gang.answer(stage, subject.name))

    def _start_gang(self) -> Gang:
        asked = self.setting.checks
        stages = {stage: check.name for check in asked for stage in check.experiments if self._wanted(check)}
        nodes = tuple(node.name for node in self.plan.nodes if not node.missing and self._belongs(node.name, stages))
        gang = Gang()
        request = gang_requests.gang_request(self.setting.profile, stages, nodes)
        every = {stage: check.name for check in asked for stage in check.experiments}
        suite = gang_requests.suite_request(self.setting.profile, stages, every, self.setting.run_id, self._nodes)

        def work() -> None:
            with self._one_sweep:
                self._in_namespace()
                inventory = self._inventory if self._sweeper is None else self._sweeper.inventory
                session = GangSession(self.cluster, self._renderer, inventory, request, self.stop)
                self.record.job(request.sweep, StartedJob(GANG, nodes, False), self._renderer.namespace)
                GangSuite(session, suite, nodes, gang.publish).run()

        gang.start(work, lambda stage, subject, answer: self._gang_said(stages[stage], subject, answer), _explain)
        return gang

    def _belongs(self, node: str, stages: Mapping[str, str]) -> bool:
        """Whether something is asked of the node, alone or with all others, that nothing speaks against."""
        return any(
            self._fit(check, node) and not {(check, node), (check, ClusterSubject().name)}.isdisjoint(self.asked)
            for check in stages.values()
        )

    def _wanted(self, check: Check) -> bool:
        """Whether anything of the check is asked and open."""
        return any(name == check.name and self.settled(name, subject) is None for name, subject in self.asked)

    def _fit(self, check: str, node: str) -> bool:
        """Whether nothing that the check needs speaks against the node."""
        needed = self._prerequisites(check)
        lines = [self.judged.get((one, node)) for one in needed]
        return all(line is None or line.verdict is Verdict.PASS for line in lines)

    def _gang_said(self, check: str, subject: str, answer: Answer) -> None:
        if isinstance(answer, JobFailure):
            self.record.failed(check, GANG_WORKLOAD, subject, None, answer)
        else:
            took = Timings(0.0, 0.0, time.monotonic() - self._began)
            self.record.measured(check, GANG_WORKLOAD, Visited(subject, answer.pod, -1, answer, took))

    def try_claims(self, check: str, subject: ClusterSubject) -> Answer:
        """What became of a claim on each storage of the profile, from its making to the end of its volume."""
        with self._one_sweep:
            try:
                self._in_namespace()
                trial = ClaimTrial(self.cluster, self._renderer, self.setting.profile.deadlines.starting_s)
                return self._saw(check, subject, trial.run())
            except ClusterError as error:
                return self._saw(check, subject, JobFailure(error.reason, error.message))

    def read_exporter(self, check: str, subject: NodeSubject, seen: Answer) -> Answer:
        """What the node's own metrics exporter tells of the GPUs that a pod on it saw."""
        if subject.missing:
            return self._absent(check, subject)
        return self._saw(check, subject, self._telemetry.export(check, subject.name, seen))

    def read_prometheus(self, check: str, subject: NodeSubject, seen: Answer) -> Answer:
        """What Prometheus keeps of the GPUs that a pod on the node saw."""
        if subject.missing:
            return self._absent(check, subject)
        return self._saw(check, subject, self._telemetry.recording(check, subject.name, seen))

    def read_pull(self, check: str, subject: NodeSubject, ran: Answer, which: str) -> Answer:
        """What the node's kubelet says of the image of the pod that gave this answer."""
        if isinstance(ran, JobFailure):
            return self._hand_out(check, subject, ran)
        visits = (sweep.visits.get(subject.name) for (name, _), sweep in self._sweeps.items() if name == check)
        visited = next(visit for visit in visits if visit is not None and visit.measurement is ran)
        within_s = self.setting.profile.deadlines.starting_s
        try:
            return self._saw(check, subject, pull_of(self.cluster, self._renderer.namespace, visited, which, within_s))
        except ClusterError as error:
            return self._saw(check, subject, JobFailure(error.reason, error.message))

    def follow_load(self, check: str, subject: NodeSubject, load: Answer) -> Answer:
        """What the exporter told while this check's load held the GPUs, and after all of it was gone."""
        if subject.missing:
            return self._absent(check, subject)
        for (name, _), sweep in self._sweeps.items():
            if name == check:
                sweep.wait()
        return self._saw(check, subject, self._telemetry.attribution(check, subject.name, load))

    def _hand_out(self, check: str, subject: Subject, answer: Answer) -> Answer:
        self._handed_out.setdefault((check, subject.name), []).append(answer)
        return answer

    def _missing(self, subject: NodeSubject) -> JobFailure:
        return JobFailure(
            Reason.NODE_MISSING,
            f"{subject.name}: the profile expects {self.plan.expected_nodes} nodes in its pool, the cluster has "
            f"{self._pool_size}; add the missing nodes (or their pool label), or correct [cluster] nodes",
        )

    def _check(self, name: str) -> Check:
        return next(check for check in self.setting.checks if check.name == name)

    def _compares_with_fleet(self, check: str) -> bool:
        return any(limit.compares_subjects for limit in self.setting.profile.limits_for(check))

    def _start_sweep(self, check: str, workload: str) -> Sweep:
        profile = self.setting.profile
        names = [subject.name for subject in self.plan.nodes if not subject.missing]
        shape = read_shape(workload, self.setting.folders)
        candidates = tuple(name for name in names if (check, name) in self.asked and self.settled(check, name) is None)
        request = SweepRequest(
            check=check,
            workload=workload,
            params={
                **profile.workloads.get(check, {}),
                "device": profile.cluster.device,
                # Pods that meet each other must know for how many to wait.
                **({"nodes": len(candidates)} if shape.claims else {}),
            },
            candidates=candidates,
            gpus_per_pod=shape.gpus_of(profile.cluster.pod_gpus),
            deadlines=profile.deadlines,
            shape=shape,
            dataset=profile.dataset if shape.dataset else None,
            call=threading.Event() if shape.stays else None,
        )
        sweep = Sweep(request)
        sweep.start(
            self._stay if shape.stays else self._sweep,
            self.stop,
            lambda result: self._took(check, workload, result),
            _explain,
        )
        self._sweeps[check, workload] = sweep
        return sweep

    def _sweep(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        """Run one sweep after another, in the run's namespace, which the first one makes."""
        with self._one_sweep:
            self._in_namespace()
            if self._sweeper is None:
                self._sweeper = Sweeper(self.cluster, self._renderer, self._inventory, on_job=self._job_started)
            self._running = request
            try:
                summary = self._sweeper.run(request, on_result, stop)
            finally:
                self._running = None
        for node, log in summary.logs.items():
            self.record.log(request.check, node, log)

    def _begin_to_stay(self) -> None:
        """Start the pods that stay as soon as nothing that their check needs is open."""
        for check, workload in self._staying:
            subjects = [subject for name, subject in self.asked if name == check]
            if (check, workload) in self._sweeps or not subjects:
                continue
            needed = list(self._prerequisites(check))
            known = all((one, subject) in self.judged for one in needed for subject in subjects)
            if known and any(self.settled(check, subject) is None for subject in subjects):
                self._start_sweep(check, workload)

    @cached_property
    def _staying(self) -> tuple[tuple[str, str], ...]:
        """The checks whose pods stay to the end, with their programs."""
        programs = ((check.name, name) for check in self.setting.checks for name in check.workloads)
        return tuple(one for one in programs if read_shape(one[1], self.setting.folders).stays)

    def _stay(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        """Run a sweep beside all others."""
        if self._namespace is None:
            with self._one_sweep:
                self._in_namespace()

        def started(job: StartedJob) -> None:
            self.record.job(request, job, self._renderer.namespace)

        inventory = self._inventory if self._sweeper is None else self._sweeper.inventory
        summary = Sweeper(self.cluster, self._renderer, inventory, on_job=started).run(request, on_result, stop)
        for node, log in summary.logs.items():
            self.record.log(request.check, node, log)

    def _in_namespace(self) -> None:
        if self._namespace is None:
            self._namespace = RunNamespace(self.cluster, self._renderer.namespace_object())
            self._namespace.create()

    def _job_started(self, job: StartedJob) -> None:
        if self._running is not None:
            self._telemetry.job_started(self._running.check)
        self.record.job(self._running, job, self._renderer.namespace)

    def _took(self, check: str, workload: str, result: Visited | NotVisited) -> None:
        self._telemetry.arrived(check, result.node)
        if isinstance(result, NotVisited):
            self.record.failed(check, workload, result.node, result.pod, result.failure)
        else:
            self.record.measured(check, workload, result)

    # -- judging -------------------------------------------------------------------------------------------------------

    def judge(self, check: str, subject: str, answers: Sequence[Answer], began: float) -> Judgement:
        """Hold the answers against the profile and write the verdict down; a second verdict is never a better one."""
        judgement = conclude(
            check, subject, answers, self.setting.profile.limits_for(check), self._context(check, subject)
        )
        handed_out = self._handed_out.get((check, subject), [])
        if not all(any(answer is one for one in handed_out) for answer in answers):
            text = f"{check} held something for {subject} that it did not get by asking about it: nothing was judged"
            judgement = Judgement(Verdict.ERROR, reasons=(text,), reason_code=NOTHING_JUDGED)
        if (check, subject) in self._held:
            text = f"{check} held answers for {subject} twice; a check holds once, with everything it has"
            judgement = _worse(self._held[check, subject], judgement, text)
        self._held[check, subject] = judgement
        self.settle(check, subject, judgement, time.monotonic() - began)
        return judgement

    def spoil(self, check: str, subject: str, text: str) -> None:
        """The check itself broke: its verdict is an ERROR, unless the cluster had already failed it."""
        before = self._held.get((check, subject))
        error = Judgement(Verdict.ERROR, reasons=(text,), reason_code=str(Reason.HARNESS_ERROR))
        self.settle(check, subject, _worse(before, error, text) if before else error)

    def settle(self, check: str, subject: str, judgement: Judgement, duration_s: float = 0.0) -> None:
        """Write a verdict down, however it came about."""
        required = self.setting.profile.checks[check].state is State.REQUIRED
        blocker = self._blocker(check, subject)[0] if judgement.reason_code == BLOCKED else None
        line = VerdictLine.of(check, subject, judgement, blocker)
        if not line.held and (check, subject) in self._taken_over:
            line = replace(line, held=self._taken_over[check, subject].held)
        self.judged[check, subject] = line
        self.record.verdict(check, subject, judgement, required=required, blocker=blocker, seconds=duration_s)
        if not self.stop.is_set():
            self._begin_to_stay()

    def _context(self, check: str, subject: str) -> Context:
        cluster = self.setting.profile.cluster
        baseline = self.setting.baseline.values if self.setting.baseline is not None else {}
        if not self._compares_with_fleet(check):
            return Context(cluster, baseline=baseline)
        limits, expected = self.setting.profile.limits_for(check), self.plan.expected_nodes
        # Every subject is held against the same fleet once all have answered: what they said is gathered once.
        answers = sum(len(sweep.answers) for (name, _), sweep in self._sweeps.items() if name == check)
        known = (check, answers, check in self._observed)
        if self._gathered is None or self._gathered[0] != known:
            fleet = self._fleet(check)
            self._gathered = known, fleet, seen_values(limits, fleet, expected)
        _, fleet, seen = self._gathered
        medians = fleet_medians(limits, fleet, subject, expected)
        return Context(cluster, fleet=medians, baseline=baseline, seen=seen)

    def _fleet(self, check: str) -> Fleet:
        """All that was measured for the check, by subject: now, or by the resumed run where that settled it."""
        settled = self._taken_over.keys() & self._measured_earlier.keys()
        fleet = {subject: list(self._measured_earlier[name, subject]) for name, subject in settled if name == check}
        for (name, _), sweep in self._sweeps.items():
            for subject, answer in sweep.answers.items() if name == check else ():
                if isinstance(answer, Measurement):
                    fleet.setdefault(subject, []).append(answer)
        for stage in self._check(check).experiments if self._gang is not None else ():
            for subject, answer in self._gang.answers(stage).items() if self._gang is not None else ():
                if isinstance(answer, Measurement):
                    fleet.setdefault(subject, []).append(answer)

        for node in self._nodes.values() if check in self._observed else ():
            fleet.setdefault(node.name, []).append(self._observe_node(check, node))
        return fleet

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self, interrupted: str | None = None) -> Decision:
        """Stop work, tidy up, decide. Never raises for what the cluster does: what is left behind is written down."""
        self._alarm.cancel()
        self.stop.set()
        if self._late and not interrupted:
            interrupted = f"the run's deadline of {self.setting.profile.deadlines.run_s:g} s"
        if interrupted:
            self.record.interrupted(interrupted)
        for sweep in self._sweeps.values():
            sweep.join(SWEEP_END_WITHIN_S)
        if self._gang is not None:
            self._gang.join(SWEEP_END_WITHIN_S)

        self._telemetry.close()
        if self.setting.profile.telemetry is not None:
            self.record.gpu_time(self._telemetry.gpu_time())
        if self._trainings is not None:
            self._trainings.close()
        if self._namespace is not None:
            self.record.tidied(self._namespace.delete(CLEANUP_WITHIN_S))
        self._look_again()
        self._fill_gaps(interrupted)
        profile = self.setting.profile
        self.decision = decide(
            self.plan.subjects,
            self.judged,
            interrupted=interrupted is not None,
            blocking_provenance=profile.blocking_provenance(today()),
            waivers=profile.waivers,
            today=today(),
            scope=judge_coverage(self.plan, profile, self.judged, today=today(), narrowed=self.setting.narrowed),
            limits=profile.limits,
        )
        self.record.decided(self.decision)
        self.record.finished(time.monotonic() - self._began, self.cluster.counters)
        return self.decision

    def _look_again(self) -> None:
        """A node that passed and is no longer there, or no longer the same, has not passed."""
        passed = {subject for (_, subject), line in self.judged.items() if line.verdict is Verdict.PASS}
        before = {name: node for name, node in self._nodes.items() if name in passed}
        if not before:
            return
        try:
            now = self._read_nodes()
        except ClusterError as error:
            failure = JobFailure(error.reason, f"the nodes could not be looked at again at the end: {error.message}")
            changed = dict.fromkeys(before, failure)
        else:
            profile = self.setting.profile
            gpus = profile.cluster.gpus_per_node
            changed = final_look.changes(before, now.nodes, scope_labels(profile), gpus)
        # The checks that come first stand for the node itself; what was measured on it later is left as it was.
        first = [check.name for check in self.setting.checks if check.asks_nodes and not check.requires]
        for name, failure in changed.items():
            for check in first:
                line = self.judged.get((check, name))
                if line is not None and line.verdict is Verdict.PASS:
                    self.record.failed(check, FINAL_LOOK, name, None, failure)
                    self.settle(check, name, judge_failure(failure))

    def _fill_gaps(self, interrupted: str | None) -> None:
        reason = f"not reached: the run was interrupted ({interrupted})" if interrupted else "not selected for this run"
        for subject in self.plan.subjects:
            if (subject.check, subject.subject) not in self.judged:
                code = str(Reason.INTERRUPTED) if interrupted else NOT_SELECTED
                gap = Judgement(Verdict.NOT_RUN, reasons=(reason,), reason_code=code)
                self.settle(subject.check, subject.subject, gap)


class WrongClusterError(Exception):
    """The cluster and the profile do not fit each other, so that nothing may run."""


_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN, Verdict.NOT_APPLICABLE, Verdict.RECORDED, Verdict.PASS)


def _worse(first: Judgement, second: Judgement, why: str) -> Judgement:
    """The worse of two judgements, at best an ERROR: there should have been one."""
    worse = min(first, second, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))
    worse = replace(worse, reasons=(*worse.reasons, why))
    if worse.verdict is Verdict.FAIL:
        return worse
    return replace(worse, verdict=Verdict.ERROR, reason_code=str(Reason.HARNESS_ERROR))


def renderer(setting: Setting) -> Renderer:
    """What turns the run's requests into manifests."""
    profile = setting.profile
    return Renderer(
        run_id=setting.run_id,
        namespace=f"gpuproof-{setting.run_id}",
        pool=scope_labels(profile),
        gpu_resource=profile.cluster.gpu_resource,
        pod=PodSettings.from_mapping(profile.pod),
        folders=setting.folders,
        rdma=profile.cluster.rdma,
        storage=profile.storage,
    )


def today() -> dt.date:
    """The day in UTC on which provenance and waivers are judged."""
    return dt.datetime.now(dt.UTC).date()


def _explain(error: Exception) -> JobFailure:
    if isinstance(error, ClusterError):
        return JobFailure(error.reason, error.message)
    return JobFailure(Reason.HARNESS_ERROR, f"the harness failed: {type(error).__name__}: {error}")
