"""One acceptance run from the first look at the cluster to the decision: joins everything, judges nothing.

It must not know pytest; the plugin and the command line drive it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from gpuproof import __version__, final_look, node_loss
from gpuproof.cluster import raw
from gpuproof.cluster.port import NAMESPACES, NODES, PODS, Cluster, ClusterError
from gpuproof.decision import Decision, decide
from gpuproof.describe import plain
from gpuproof.expectation import CoverShare
from gpuproof.failure import JobFailure
from gpuproof.inventory import Inventory, Node, gpus_in_use, read_inventory
from gpuproof.plan import judge_coverage, make_plan, scope_labels
from gpuproof.questions import Questions
from gpuproof.rdma_attachment import unnamed
from gpuproof.record import Recorder
from gpuproof.resume import Circumstances, Earlier
from gpuproof.run_pods import RunPods
from gpuproof.run_record import FINAL_LOOK, RunRecord
from gpuproof.setting import Setting, WrongClusterError, today
from gpuproof.suite import Answer, ClusterSubject
from gpuproof.verdict import Judgement, Verdict, judge_failure
from gpuproof.verdicts import Verdicts

SWEEP_END_WITHIN_S = 30.0


class Run:
    """A run in progress. Create it, `look` and `begin`, ask its `questions` and `judge`, and always `close` it."""

    def __init__(self, setting: Setting, cluster: Cluster, recorder: Recorder) -> None:
        self.setting = setting
        self.cluster = cluster
        self.record = RunRecord(recorder)
        self.stop = threading.Event()
        self.verdicts = Verdicts(setting, self.record)
        self.pods = RunPods(setting, cluster, self.record, self.stop)
        self.questions = Questions(setting, self.record, self.verdicts, self.pods, self.stop)
        self.decision: Decision | None = None
        self._began = time.monotonic()
        self._late = False
        self._alarm = threading.Timer(setting.profile.deadlines.run_s, self._out_of_time)
        self._alarm.daemon = True
        self._version = self._uid = ""
        self._nodes: dict[str, Node] = {}

    # -- the beginning -------------------------------------------------------------------------------------------------

    def look(self) -> Circumstances:
        """Who the cluster and its nodes are; raises `ClusterError`, or `WrongClusterError` where it does not fit."""
        profile = self.setting.profile
        self._alarm.start()
        self._version = self.cluster.server_version()
        # The one identity that every cluster has and that no two share.
        self._uid = raw.text(self.cluster.get(NAMESPACES, "kube-system"), "metadata", "uid")
        inventory = self.pods.inventory = self._read_nodes()
        busy = self._busy()
        self._nodes = {n.name: n for n in inventory.in_pool(scope_labels(profile)) if n.name not in busy}
        self.questions.nodes, self.questions.pool_size = self._nodes, len(inventory.in_pool(profile.scope.pool))
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
            self.verdicts.go_on_from(earlier, {name: node.uid for name, node in self._nodes.items()})
        plan = self.verdicts.plan = make_plan(self.setting.checks, profile, list(self._nodes))
        cluster = {
            "name": self.cluster.name,
            "uid": self._uid,
            "server_version": self._version,
            "simulated": self.simulated,
        }
        scope = judge_coverage(plan, profile, {}, today=today()).text
        setting = self.setting
        self.record.started(setting.run_id, setting.argv, profile, setting.checks, plan, cluster, scope, today())
        self.record.looked(self.pods.inventory, self._nodes, self._version)
        self.record.planned(plan)
        if setting.baseline is not None:
            self.record.baseline(setting.baseline)
        self.pods.telemetry.begin(self._nodes, lambda scrapes: self.record.telemetry(self.pods.running, scrapes))

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

    # -- judging -------------------------------------------------------------------------------------------------------

    def judge(self, check: str, subject: str, answers: Sequence[Answer], began: float) -> Judgement:
        """Hold the answers against the profile and write the verdict down; `began` is by the monotonic clock."""
        context = self.questions.context(check, subject)
        judgement = self.verdicts.judge(check, subject, answers, context, began)
        self.questions.begin_to_stay()
        return judgement

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self, interrupted: str | None = None) -> Decision:
        """Stop work, tidy up, decide. Never raises for what the cluster does: what is left behind is written down."""
        self._alarm.cancel()
        self.stop.set()
        if self._late and not interrupted:
            interrupted = f"the run's deadline of {self.setting.profile.deadlines.run_s:g} s"
        if interrupted:
            self.record.interrupted(interrupted)
        self.questions.join(SWEEP_END_WITHIN_S)
        self.pods.telemetry.close()
        if self.setting.profile.telemetry is not None:
            self.record.gpu_time(self.pods.telemetry.gpu_time())
        cleanup = self.pods.close()
        if cleanup is not None:
            self.record.tidied(cleanup)
        self._look_again()
        self.verdicts.fill_gaps(interrupted)
        profile, plan, judged = self.setting.profile, self.verdicts.plan, self.verdicts.judged
        self.decision = decide(
            plan.subjects,
            judged,
            interrupted=interrupted is not None,
            blocking_provenance=profile.blocking_provenance(today()),
            waivers=profile.waivers,
            today=today(),
            scope=judge_coverage(plan, profile, judged, today=today(), narrowed=self.setting.narrowed),
            limits=profile.limits,
        )
        self.record.decided(self.decision)
        self.record.finished(time.monotonic() - self._began, self.cluster.counters)
        return self.decision

    def _look_again(self) -> None:
        """A node that passed and is no longer there, or no longer the same, has not passed."""
        passed = {subject for (_, subject), line in self.verdicts.judged.items() if line.verdict is Verdict.PASS}
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
        taken = self.pods.nodes_taken
        for name in sorted(taken):
            now_is = changed[name].message if name in changed else f"{name} is as it was"
            said = f"{name} was taken away on purpose by this run; what was found on it before that stands. At the end:"
            self.record.log(node_loss.CHECK, ClusterSubject().name, f"{said} {now_is}")
        for name, failure in changed.items():
            if name in taken:
                continue
            for check in first:
                line = self.verdicts.judged.get((check, name))
                if line is not None and line.verdict is Verdict.PASS:
                    self.record.failed(check, FINAL_LOOK, name, None, failure)
                    self.verdicts.settle(check, name, judge_failure(failure))
