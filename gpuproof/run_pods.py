"""The pods of a run, all in one namespace that is made for the first of them and deleted with the last.

One kind of work at a time: a sweep, the gang, trainings or the trial of a claim. Must not know a question or a verdict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpuproof.claim_trial import ClaimTrial
from gpuproof.cluster.port import Cluster
from gpuproof.failure import JobFailure
from gpuproof.gang_pods import NAME as GANG
from gpuproof.gang_session import GangRequest, GangSession
from gpuproof.gang_suite import GangSuite, SuiteRequest
from gpuproof.image_pull import pull_of
from gpuproof.inventory import Inventory, Node
from gpuproof.jobs import Cleanup, OnResult, RunNamespace, StartedJob, Sweeper, SweepRequest, SweepSummary, Visited
from gpuproof.manifests import TrainingJob
from gpuproof.run_record import RunRecord
from gpuproof.run_trainings import begin_trainings, training_setup
from gpuproof.setting import Setting, renderer
from gpuproof.suite import Answer
from gpuproof.telemetry.observer import Observer
from gpuproof.trainings import Trainings
from workloads.contract import Measurement

CLEANUP_WITHIN_S = 120.0


class RunPods:
    """Everything that the run puts on the cluster; `close` takes it away again."""

    def __init__(self, setting: Setting, cluster: Cluster, record: RunRecord, stop: threading.Event) -> None:
        self._setting, self._cluster, self._record, self._stop = setting, cluster, record, stop
        self._renderer = renderer(setting)
        self.telemetry = Observer(
            cluster, setting.profile.telemetry, run_id=setting.run_id, namespace=self._renderer.namespace
        )
        """What the cluster's own exporters tell meanwhile."""
        self.inventory = Inventory({})
        """The nodes as they were found; set before the first work."""
        self.running: SweepRequest | None = None
        """The sweep that holds the cluster at this moment."""
        self._one_at_a_time = threading.Lock()
        self._making = threading.Lock()
        self._namespace: RunNamespace | None = None
        self._sweeper: Sweeper | None = None
        self._trainings: Trainings | None = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The cluster for one kind of work, in the run's namespace; raises `ClusterError` where that cannot be made."""
        with self._one_at_a_time:
            self._be_there()
            yield

    def _be_there(self) -> None:
        """Make the run's namespace, once, whoever comes first; the others wait for it."""
        with self._making:
            if self._namespace is None:
                self._namespace = RunNamespace(self._cluster, self._renderer.namespace_object())
                self._namespace.create()

    @property
    def _known(self) -> Inventory:
        """The nodes as the last sweep knew them, which follows what becomes of them."""
        return self.inventory if self._sweeper is None else self._sweeper.inventory

    def sweep(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        """Run one sweep, after whatever is at work."""
        with self._alone():
            if self._sweeper is None:
                self._sweeper = Sweeper(self._cluster, self._renderer, self.inventory, on_job=self._job_started)
            self.running = request
            try:
                summary = self._sweeper.run(request, on_result, stop)
            finally:
                self.running = None
        self._keep_logs(request, summary)

    def stay(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        """Run a sweep beside whatever else is at work, from now to the end of the run."""
        self._be_there()

        def started(job: StartedJob) -> None:
            self._record.job(request, job, self._renderer.namespace)

        sweeper = Sweeper(self._cluster, self._renderer, self._known, on_job=started)
        self._keep_logs(request, sweeper.run(request, on_result, stop))

    def _keep_logs(self, request: SweepRequest, summary: SweepSummary) -> None:
        for node, log in summary.logs.items():
            self._record.log(request.check, node, log)

    def _job_started(self, job: StartedJob) -> None:
        if self.running is not None:
            self.telemetry.job_started(self.running.check)
        self._record.job(self.running, job, self._renderer.namespace)

    def gang(
        self,
        request: GangRequest,
        suite: SuiteRequest,
        nodes: tuple[str, ...],
        publish: Callable[[str, str, Answer], None],
    ) -> None:
        """Assemble the gang and do all that is asked of it; each answer goes to `publish`."""
        with self._alone():
            session = GangSession(self._cluster, self._renderer, self._known, request, self._stop)
            self._record.job(request.sweep, StartedJob(GANG, nodes, False), self._renderer.namespace)
            GangSuite(session, suite, nodes, publish).run()

    def kill_training(self, how: str, nodes: Mapping[str, Node], pending: Callable[[], Sequence[str]]) -> Answer:
        """Have the run's training killed in this way; `pending` are all the ways that this run will still ask for."""
        with self._alone():
            if self._trainings is None:
                setting, where = self._setting, self._setting.kubeconfig
                told = {"KUBECONFIG": str(where)} if where is not None else {}
                setup = training_setup(setting.profile, nodes, setting.folders, told)
                self._trainings = begin_trainings(
                    self._cluster, self._renderer, setup, self._stop, pending, self._training_started
                )
            return self._trainings.answer(how)

    def _training_started(self, job: TrainingJob) -> None:
        request = SweepRequest(job.check, job.workload, job.params, (), job.gpus, self._setting.profile.deadlines)
        self._record.job(request, StartedJob(job.name, (), False), self._renderer.namespace)

    def story_of(self, how: str) -> str | None:
        """The lines around a kill, where it came to pass."""
        return self._trainings.evidence.get(how) if self._trainings is not None else None

    @property
    def nodes_taken(self) -> frozenset[str]:
        """The nodes that the run took away on purpose."""
        return frozenset(self._trainings.nodes_taken if self._trainings is not None else ())

    def try_claims(self) -> Measurement:
        """What became of a claim on each storage of the profile."""
        with self._alone():
            return ClaimTrial(self._cluster, self._renderer, self._setting.profile.deadlines.starting_s).run()

    def read_pull(self, visited: Visited, which: str) -> Measurement | JobFailure:
        """What the kubelet says of the image of a pod that has measured."""
        within_s = self._setting.profile.deadlines.starting_s
        return pull_of(self._cluster, self._renderer.namespace, visited, which, within_s)

    def close(self) -> Cleanup | None:
        """End the trainings and delete the namespace; None where there never was one."""
        if self._trainings is not None:
            self._trainings.close()
        return self._namespace.delete(CLEANUP_WITHIN_S) if self._namespace is not None else None
