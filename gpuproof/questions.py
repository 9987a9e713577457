"""What the checks of a run ask: of the API, of pods, of the gang, of trainings, of the exporters; and what it compares.

Each answer is written into the record the moment it is there, and remembered as handed out to the check that asked.
Must not know a limit's number or a verdict's rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property

from gpuproof import gang_requests
from gpuproof.catalogue import TRAINING
from gpuproof.cluster.port import ClusterError
from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context
from gpuproof.fleet import fleet_medians, seen_values
from gpuproof.gang_results import WORKLOAD as GANG_WORKLOAD
from gpuproof.gangs import Gang
from gpuproof.inventory import Node
from gpuproof.jobs import NotVisited, SweepRequest, Timings, Visited
from gpuproof.observation import LABEL_FACT, RDMA_OFFER, observe_cluster, observe_node
from gpuproof.pod_shape import read_shape
from gpuproof.run_pods import RunPods
from gpuproof.run_record import RunRecord
from gpuproof.setting import Setting
from gpuproof.suite import Answer, ClusterSubject, NodeSubject, Subject
from gpuproof.sweeps import RunSweep, Sweep
from gpuproof.verdicts import Verdicts
from workloads.contract import Measurement

Fleet = dict[str, list[Measurement]]
"""All that was measured for one check, by subject."""


class Questions:
    """Ask from any thread; `join` waits for what is still being answered."""

    def __init__(
        self, setting: Setting, record: RunRecord, verdicts: Verdicts, pods: RunPods, stop: threading.Event
    ) -> None:
        self._setting, self._record, self._verdicts, self._pods, self._stop = setting, record, verdicts, pods, stop
        self.nodes: Mapping[str, Node] = {}
        """The nodes in scope; set before the first question."""
        self.pool_size = 0
        """How many nodes the pool has, in scope or not."""
        self.sweep: RunSweep = pods.sweep
        """What carries a sweep out."""
        self._began = time.monotonic()
        self._sweeps: dict[tuple[str, str], Sweep] = {}
        self._gang: Gang | None = None
        self._observed: set[str] = set()
        """Checks that asked the API about a node: what it says of the others is known without asking."""
        self._gathered: tuple[tuple[str, int, bool], Fleet, Mapping[str, Mapping[str, tuple[str, ...]]]] | None = None

    def observe(self, check: str, subject: Subject) -> Answer:
        """What the API says of the subject."""
        if isinstance(subject, ClusterSubject):
            found = observe_cluster(self.pool_size, self._setting.run_id, self.nodes.values())
            return self._saw(check, subject, found)
        if subject.missing:
            return self._absent(check, subject)
        if check not in self._observed:
            # What the API says of all others is what one of them is compared with: it belongs into the record too.
            self._observed.add(check)
            for node in self.nodes.values():
                self._record.observed(check, node.name, self._observe_node(check, node))
        return self._verdicts.hand_out(check, subject, self._observe_node(check, self.nodes[subject.name]))

    def _observe_node(self, check: str, node: Node) -> Measurement:
        names = [limit.name for limit in self._setting.profile.limits_for(check)]
        labels = [name.removeprefix(LABEL_FACT) for name in names if name.startswith(LABEL_FACT)]
        cluster = self._setting.profile.cluster
        rdma = cluster.rdma.resource if cluster.rdma is not None and RDMA_OFFER in names else ""
        return observe_node(node, self._setting.run_id, cluster.gpu_resource, labels, rdma)

    def _saw(self, check: str, subject: Subject, answer: Answer) -> Answer:
        if isinstance(answer, Measurement):
            self._record.observed(check, subject.name, answer)
        else:
            self._record.failed(check, "", subject.name, None, answer)
        return self._verdicts.hand_out(check, subject, answer)

    def _absent(self, check: str, subject: NodeSubject) -> Answer:
        failure = self._missing(subject)
        self._record.failed(check, "", subject.name, None, failure)
        return self._verdicts.hand_out(check, subject, failure)

    def ask(self, check: str, workload: str, subject: NodeSubject) -> Answer:
        """Run the workload once over every node of the check that can be asked; wait for this subject's answer."""
        if subject.missing:
            return self._absent(check, subject)
        sweep = self._sweeps.get((check, workload)) or self._start_sweep(check, workload)
        if sweep.request.call is not None:
            sweep.request.call.set()
        if self._compares_with_fleet(check):
            sweep.wait()
        return self._verdicts.hand_out(check, subject, sweep.answer(subject.name))

    def kill_training(self, check: str, how: str, subject: ClusterSubject) -> Answer:
        """Have the run's training killed in this way; everything this run will ask for is one training's fate."""
        answer = _answered(lambda: self._pods.kill_training(how, self.nodes, lambda: self._kills_to_come(subject.name)))
        self._keep(check, TRAINING, subject.name, answer, 0.0)
        if story := self._pods.story_of(how):
            self._record.log(check, subject.name, story)
        return self._verdicts.hand_out(check, subject, answer)

    def _kills_to_come(self, cluster: str) -> list[str]:
        checks = [check for check in self._setting.checks if (check.name, cluster) in self._verdicts.asked]
        return [how for check in checks if self._verdicts.settled(check.name, cluster) is None for how in check.kills]

    def ask_gang(self, check: str, stage: str, subject: Subject) -> Answer:
        """Have the gang do all that is asked of it, once; wait for what this stage says of this subject."""
        missing = [node for node in self._verdicts.plan.nodes if node.missing]
        if isinstance(subject, NodeSubject) and subject.missing:
            return self._absent(check, subject)
        if isinstance(subject, ClusterSubject) and missing:
            return self._verdicts.hand_out(check, subject, self._missing(missing[0]))
        if self._gang is None:
            self._gang = self._start_gang()
        if self._compares_with_fleet(check):
            self._gang.wait()
        return self._verdicts.hand_out(check, subject, self._gang.answer(stage, subject.name))

    def _start_gang(self) -> Gang:
        asked, plan = self._setting.checks, self._verdicts.plan
        stages = {stage: check.name for check in asked for stage in check.experiments if self._verdicts.wanted(check)}
        present = [node.name for node in plan.nodes if not node.missing]
        nodes = tuple(name for name in present if self._verdicts.belongs(name, stages))
        gang = Gang()
        request = gang_requests.gang_request(self._setting.profile, stages, nodes)
        every = {stage: check.name for check in asked for stage in check.experiments}
        suite = gang_requests.suite_request(self._setting.profile, stages, every, self._setting.run_id, self.nodes)

        def work() -> None:
            self._pods.gang(request, suite, nodes, gang.publish)

        def said(stage: str, subject: str, answer: Answer) -> None:
            self._keep(stages[stage], GANG_WORKLOAD, subject, answer, time.monotonic() - self._began)

        gang.start(work, said, _explain)
        return gang

    def _keep(self, check: str, program: str, subject: str, answer: Answer, measured_s: float) -> None:
        """Write down what pods said that no sweep had sent."""
        if isinstance(answer, JobFailure):
            self._record.failed(check, program, subject, None, answer)
        else:
            took = Timings(0.0, 0.0, measured_s)
            self._record.measured(check, program, Visited(subject, answer.pod, -1, answer, took))

    def try_claims(self, check: str, subject: ClusterSubject) -> Answer:
        """What became of a claim on each storage of the profile, from its making to the end of its volume."""
        return self._saw(check, subject, _answered(self._pods.try_claims))

    def read_exporter(self, check: str, subject: NodeSubject, seen: Answer) -> Answer:
        """What the node's own metrics exporter tells of the GPUs that a pod on it saw."""
        if subject.missing:
            return self._absent(check, subject)
        return self._saw(check, subject, self._pods.telemetry.export(check, subject.name, seen))

    def read_prometheus(self, check: str, subject: NodeSubject, seen: Answer) -> Answer:
        """What Prometheus keeps of the GPUs that a pod on the node saw."""
        if subject.missing:
            return self._absent(check, subject)
        return self._saw(check, subject, self._pods.telemetry.recording(check, subject.name, seen))

    def read_pull(self, check: str, subject: NodeSubject, ran: Answer, which: str) -> Answer:
        """What the node's kubelet says of the image of the pod that gave this answer."""
        if isinstance(ran, JobFailure):
            return self._verdicts.hand_out(check, subject, ran)
        visits = (sweep.visits.get(subject.name) for (name, _), sweep in self._sweeps.items() if name == check)
        visited = next(visit for visit in visits if visit is not None and visit.measurement is ran)
        return self._saw(check, subject, _answered(lambda: self._pods.read_pull(visited, which)))

    def follow_load(self, check: str, subject: NodeSubject, load: Answer) -> Answer:
        """What the exporter told while this check's load held the GPUs, and after all of it was gone."""
        if subject.missing:
            return self._absent(check, subject)
        for (name, _), sweep in self._sweeps.items():
            if name == check:
                sweep.wait()
        return self._saw(check, subject, self._pods.telemetry.attribution(check, subject.name, load))

    def _missing(self, subject: NodeSubject) -> JobFailure:
        return JobFailure(
            Reason.NODE_MISSING,
            f"{subject.name}: the profile expects {self._verdicts.plan.expected_nodes} nodes in its pool, the cluster "
            f"has {self.pool_size}; add the missing nodes (or their pool label), or correct [cluster] nodes",
        )

    def _compares_with_fleet(self, check: str) -> bool:
        return any(limit.compares_subjects for limit in self._setting.profile.limits_for(check))

    def _start_sweep(self, check: str, workload: str) -> Sweep:
        profile = self._setting.profile
        names = [subject.name for subject in self._verdicts.plan.nodes if not subject.missing]
        shape = read_shape(workload, self._setting.folders)
        asked, settled = self._verdicts.asked, self._verdicts.settled
        candidates = tuple(name for name in names if (check, name) in asked and settled(check, name) is None)
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
            self._pods.stay if shape.stays else self.sweep,
            self._stop,
            lambda result: self.took(check, workload, result),
            _explain,
        )
        self._sweeps[check, workload] = sweep
        return sweep

    def begin_to_stay(self) -> None:
        """Start the pods that stay to the end of the run, as soon as nothing that their check needs is open."""
        for check, workload in self._staying:
            if (check, workload) not in self._sweeps and self._verdicts.may_begin(check):
                self._start_sweep(check, workload)

    @cached_property
    def _staying(self) -> tuple[tuple[str, str], ...]:
        programs = ((check.name, name) for check in self._setting.checks for name in check.workloads)
        return tuple(one for one in programs if read_shape(one[1], self._setting.folders).stays)

    def took(self, check: str, workload: str, result: Visited | NotVisited) -> None:
        """One result of a sweep, the moment it is there."""
        self._pods.telemetry.arrived(check, result.node)
        if isinstance(result, NotVisited):
            self._record.failed(check, workload, result.node, result.pod, result.failure)
        else:
            self._record.measured(check, workload, result)

    # -- what is compared ----------------------------------------------------------------------------------------------

    def context(self, check: str, subject: str) -> Context:
        """What a subject's numbers are held against beside the profile's own."""
        cluster = self._setting.profile.cluster
        baseline = self._setting.baseline.values if self._setting.baseline is not None else {}
        if not self._compares_with_fleet(check):
            return Context(cluster, baseline=baseline)
        limits, expected = self._setting.profile.limits_for(check), self._verdicts.plan.expected_nodes
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
        earlier = self._verdicts.measured_earlier
        settled = self._verdicts.taken_over.keys() & earlier.keys()
        fleet = {subject: list(earlier[name, subject]) for name, subject in settled if name == check}
        for (name, _), sweep in self._sweeps.items():
            for subject, answer in sweep.answers.items() if name == check else ():
                if isinstance(answer, Measurement):
                    fleet.setdefault(subject, []).append(answer)
        for stage in self._verdicts.check(check).experiments if self._gang is not None else ():
            for subject, answer in self._gang.answers(stage).items() if self._gang is not None else ():
                if isinstance(answer, Measurement):
                    fleet.setdefault(subject, []).append(answer)

        for node in self.nodes.values() if check in self._observed else ():
            fleet.setdefault(node.name, []).append(self._observe_node(check, node))
        return fleet

    def join(self, timeout_s: float) -> None:
        """Wait for what is still being answered, for each at most so long."""
        for sweep in self._sweeps.values():
            sweep.join(timeout_s)
        if self._gang is not None:
            self._gang.join(timeout_s)


def _answered(ask: Callable[[], Answer]) -> Answer:
    """What the cluster answers, or why it does not."""
    try:
        return ask()
    except ClusterError as error:
        return _explain(error)


def _explain(error: Exception) -> JobFailure:
    if isinstance(error, ClusterError):
        return JobFailure(error.reason, error.message)
    return JobFailure(Reason.HARNESS_ERROR, f"the harness failed: {type(error).__name__}: {error}")
