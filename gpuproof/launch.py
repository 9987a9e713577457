"""From a user's options to a run in progress, and from its end to reports: profile, cluster, folder, signals.

It must not know pytest or a terminal; every complaint is a `LaunchError` in plain words.
"""

from __future__ import annotations

import contextlib
import difflib
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console

from gpuproof import simulation
from gpuproof.acceptances import folders_beside, last_acceptances
from gpuproof.baseline import Baseline, BaselineError, read_baseline, recorded_baseline
from gpuproof.bundle import copy_profile, seal
from gpuproof.catalogue import (
    ACCEPTANCE,
    CatalogueError,
    Check,
    load_checks,
    parameters_of,
    subjects_asked,
    workload_folders,
)
from gpuproof.cluster.kube import connect
from gpuproof.cluster.port import Cluster, ClusterError
from gpuproof.decision import Decision
from gpuproof.expectation import State
from gpuproof.gang_params import STAGES, ParamsError, read_params, refuse_tool
from gpuproof.gang_results import WORKLOAD as GANG_WORKLOAD
from gpuproof.manifests import ManifestError, check_pod_settings
from gpuproof.noted import noting
from gpuproof.pod_shape import PodShapeError, read_shape
from gpuproof.profile import Profile, load_profile
from gpuproof.profile_error import ProfileError
from gpuproof.record import Recorder, RecordError, read_record
from gpuproof.report import ReportPaths, RunView, write_reports
from gpuproof.report.view import SubjectView
from gpuproof.resume import ResumeError, read_earlier
from gpuproof.run import CLEANUP_WITHIN_S, Run, Setting, WrongClusterError, today
from gpuproof.run_folder import RECORD, FolderError, LinesBySubject, disown, lines_so_far, own
from gpuproof.run_namespace import delete_namespace, leftovers

Listener = Callable[[Mapping[str, Any]], None]


class LaunchError(Exception):
    """Why no run can start: usage, profile, checks or cluster; exit code 2."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    profile: Path
    simulated: bool = False
    context: str | None = None
    kubeconfig: Path | None = None
    in_cluster: bool = False
    run_id: str = ""
    out: Path = Path("reports")
    image: str | None = None
    resume: Path | None = None
    topology: str = "small"
    faults: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    folders: tuple[Path, ...] = (ACCEPTANCE,)
    only: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    narrowed: str | None = None
    """How the command line cut the run down, in words; None for the whole."""
    baseline: Path | None = None
    """Folder of the earlier run that limits with `of = "baseline"` are relative to."""
    listener: Listener | None = None
    """Called with every line of the record as it is written."""


@dataclass
class Launched:
    """A run, the cluster it talks to, and what has to be closed after it."""

    run: Run
    recorder: Recorder
    cluster: Cluster
    simulated: simulation.Simulation | None
    directory: Path
    lines: LinesBySubject
    lock: BinaryIO
    reports: ReportPaths | None = None
    signal_name: str | None = None
    digest: str | None = None
    """Of the sealed folder: SHA-256 of its SHA256SUMS."""
    _restore: Callable[[], None] = field(default=lambda: None)

    def view(self) -> RunView:
        """What the reports would show now."""
        return RunView.from_record(read_record(self.directory / RECORD))

    def look_up(self, check: str, subject: str) -> SubjectView | None:
        """One subject as the reports would show it now, for pytest-html's rows, without reading the whole record."""
        return RunView.from_record(self.lines.about(check, subject)).find(check, subject)

    def seal(self) -> None:
        """Put checksums over everything in the run's folder, once every report is in it."""
        if self.reports is None or self.run.decision is None:
            return
        try:
            self.digest = seal(self.directory)
        except OSError as error:
            print(f"gpuproof: the run's folder was not sealed: {error}", file=sys.stderr)  # noqa: T201

    def finish(self, *, interrupted: bool) -> Decision:
        """Close the run whatever happened to it, write the reports, stop the simulated cluster. Once only."""
        if self.run.decision is not None:
            return self.run.decision
        try:
            with _undisturbed():
                decision = self.run.close((self.signal_name or "SIGINT") if interrupted else None)
                self.recorder.close()
                try:
                    self.reports = write_reports(self.view(), self.directory)
                except OSError as error:
                    # The decision stands in the record; `gpuproof report` can render it elsewhere.
                    print(f"gpuproof: no report was written: {error}", file=sys.stderr)  # noqa: T201
                return decision
        finally:
            self._restore()
            self.lock.close()
            release(self.cluster, self.simulated)


def launch(options: Options) -> Launched:
    """Load, connect, look, plan; raises `LaunchError` and leaves nothing behind then."""
    checks, profile = read(options)
    directory = (options.resume or options.out).resolve()
    resumed = options.resume is not None
    with contextlib.ExitStack() as undo:
        try:
            lock = own(directory, resumed=resumed)
            undo.callback(disown, directory, lock, resumed=resumed)
            so_far = lines_so_far(directory) if resumed else None
        except FolderError as error:
            raise LaunchError(str(error)) from error
        cluster, simulated = reach(options)
        undo.callback(release, cluster, simulated)
        setting = Setting(
            run_id=options.run_id,
            profile=profile,
            checks=checks,
            argv=options.argv,
            simulated=simulated is not None,
            narrowed=options.narrowed,
            folders=workload_folders(options.folders),
            baseline=_baseline(options, profile, so_far),
        )
        recorder = Recorder(directory / RECORD)
        undo.callback(recorder.close)
        run = Run(setting, noting(cluster, directory), recorder)
        lines = _look_and_begin(run, recorder, options, directory, so_far)
        _copy_profile(profile, directory)
        undo.pop_all()
    launched = Launched(run, recorder, cluster, simulated, directory, lines, lock)
    launched._restore = _interrupt_on_signals(launched)  # noqa: SLF001 - its own factory
    return launched


def _baseline(options: Options, profile: Profile, so_far: Sequence[Mapping[str, Any]] | None) -> Baseline | None:
    """The run that limits are relative to: a resumed run is held to the one that it began with."""
    began_with = recorded_baseline(so_far) if so_far is not None else None
    if options.baseline is None:
        return began_with
    record = options.baseline if options.baseline.is_file() else options.baseline / RECORD
    try:
        found = read_baseline(read_record(record), profile.limits)
    except (BaselineError, OSError, RecordError) as error:
        raise LaunchError(f"--baseline {options.baseline}: {error}") from error
    if so_far is not None and (began_with is None or began_with.run != found.run):
        then = "no baseline" if began_with is None else began_with.run
        raise LaunchError(f"--baseline {options.baseline}: it began with {then}; leave it out to continue")
    return found


def _copy_profile(profile: Profile, directory: Path) -> None:
    try:
        copy_profile(profile, directory)
    except OSError as error:
        raise LaunchError(f"no copy of {profile.path} could be put into {directory}: {error}") from error


def _look_and_begin(
    run: Run, recorder: Recorder, options: Options, directory: Path, so_far: Sequence[Mapping[str, Any]] | None
) -> LinesBySubject:
    lines = LinesBySubject()
    try:
        here = run.look()
        earlier = None if so_far is None else read_earlier(so_far, datetime.now(UTC), here)
        recorder.listen(lines.take)
        if options.listener is not None:
            recorder.listen(_patient(options.listener))
        if earlier is not None:
            recorder.append("resumed", by=list(options.argv))
        _refuse_unknown_nodes(options.nodes, run)
        run.begin(earlier)
        if earlier is None:
            who = {"name": run.cluster.name, "uid": here.cluster_uid, "simulated": run.simulated}
            before = last_acceptances(folders_beside(directory, options.baseline), who, run.node_names)
            recorder.append("acceptances", runs=before.runs, nodes=before.nodes)
    except ClusterError as error:
        raise LaunchError(f"{run.cluster.name}: {error.message}") from error
    except WrongClusterError as error:
        raise LaunchError(str(error)) from error
    except ResumeError as error:
        raise LaunchError(f"--resume {options.resume}: {error}") from error
    return lines


def _patient(listener: Listener) -> Listener:
    """A terminal that went away (a closed pipe) must not end the run that it was showing."""

    def take(line: Mapping[str, Any]) -> None:
        # rich leaves the process when its pipe is closed; the record and the decision are worth more than the view.
        with contextlib.suppress(OSError, SystemExit):
            listener(line)

    return take


def _refuse_unknown_nodes(names: tuple[str, ...], run: Run) -> None:
    known = run.node_names
    for name in names:
        if name not in known:
            some = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
            raise LaunchError(f"--nodes {name}: not a node of the profile's pool: {some}")


def read(options: Options) -> tuple[tuple[Check, ...], Profile]:
    """The checks there are and the profile that judges them; raises `LaunchError`."""
    try:
        checks = load_checks(options.folders)
        profile = load_profile(options.profile, known_checks=subjects_asked(checks), today=today())
    except (CatalogueError, ProfileError) as error:
        raise LaunchError(str(error)) from error
    for name in options.only:
        if name not in profile.checks:
            raise LaunchError(f"--only {name}: no such check; there are {', '.join(sorted(profile.checks))}")
    _refuse_unknown_parameters(checks, profile, workload_folders(options.folders))
    _refuse_experiments(checks, profile)
    if options.image is not None:
        profile = replace(profile, pod={**profile.pod, "image": options.image})
    try:
        check_pod_settings(profile.pod, pool=profile.scope.pool, gpu_resource=profile.cluster.gpu_resource)
    except ManifestError as error:
        raise LaunchError(f"{profile.path}: {error}") from error
    return checks, profile


def _refuse_unknown_parameters(checks: Sequence[Check], profile: Profile, folders: Sequence[Path]) -> None:
    for check in checks:
        known: set[str] = {"device"}
        for workload in check.workloads:
            taken = parameters_of(workload, folders)
            if taken is None:
                raise LaunchError(
                    f"{check.file}: runs the workload {workload!r}, and there is no workloads/{workload}.py"
                )
            known |= set(taken)
            _refuse_unknown_claims(check, workload, profile, folders)
        if check.experiments:
            known |= set(parameters_of(GANG_WORKLOAD, folders) or ())
        # A check that runs no program has nothing to compare its parameters with.
        for name in profile.workloads.get(check.name, {}) if check.workloads or check.experiments else ():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise LaunchError(
                    f"{profile.path}: [workload.{check.name}] {name}\n"
                    f"  expected: one of {', '.join(sorted(known))}\n"
                    f"  found:    {name}\n"
                    f"  next:     {f'write {near[0]}' if near else 'delete it'}: no program of the check takes it"
                )


def _refuse_experiments(checks: Sequence[Check], profile: Profile) -> None:
    """Experiments that nobody knows, that two checks ask for, or whose parameters do not do."""
    asked_by: dict[str, Check] = {}
    for check in checks:
        for stage in check.experiments:
            if stage not in STAGES:
                raise LaunchError(f"{check.file}: no experiment {stage!r}; there are {', '.join(STAGES)}")
            if stage in asked_by:
                raise LaunchError(f"{check.file}: {asked_by[stage].file} asks for the experiment {stage!r}; one may")
            asked_by[stage] = check
            if profile.checks[check.name].state is State.NOT_APPLICABLE:
                continue
            try:
                refuse_tool(stage, read_params(profile.workloads.get(check.name, {})))
            except ParamsError as error:
                raise LaunchError(
                    f"{profile.path}: [workload.{check.name}] {error}\n"
                    f"  next:     correct it; thresholds/simulated.toml has every key of an experiment"
                ) from error


def _refuse_unknown_claims(check: Check, workload: str, profile: Profile, folders: Sequence[Path]) -> None:
    try:
        shape = read_shape(workload, folders)
    except PodShapeError as error:
        raise LaunchError(str(error)) from error
    if profile.checks[check.name].state is State.NOT_APPLICABLE:
        return
    if shape.rdma and profile.cluster.rdma is None:
        raise LaunchError(
            f"{profile.path}: [cluster.rdma]\n"
            f"  expected: how RDMA reaches a pod, for workloads/{workload}.py of the check {check.name}\n"
            "  found:    none\n"
            f"  next:     add [cluster.rdma] with resource, per_node, rate_gbps and link_layer, or make {check.name} "
            "not-applicable with a reason"
        )
    for name in shape.claims:
        if name not in profile.storage:
            near = difflib.get_close_matches(name, profile.storage, 1)
            raise LaunchError(
                f"{profile.path}: [storage.{name}]\n"
                f"  expected: the storage that workloads/{workload}.py of the check {check.name} mounts\n"
                f"  found:    {', '.join(sorted(profile.storage)) or 'no [storage] at all'}\n"
                f"  next:     {f'rename [storage.{near[0]}]' if near else f'add [storage.{name}]'} "
                f"with storage_class, size and access_mode, or make {check.name} not-applicable with a reason"
            )


def reach(options: Options) -> tuple[Cluster, simulation.Simulation | None]:
    """The cluster that was asked for, started first where it is the simulated one; raises `LaunchError`."""
    targets = [options.simulated, options.context is not None or options.kubeconfig is not None, options.in_cluster]
    if sum(targets) != 1:
        raise LaunchError(
            "name exactly one cluster: --cluster sim, --context NAME (with --kubeconfig FILE if it is not the default "
            "one), or --in-cluster"
        )
    if not options.simulated:
        if options.faults:
            raise LaunchError("--sim-fault injects faults into the simulated cluster only; add --cluster sim")
        return _connect(options.context, options.kubeconfig, options.in_cluster), None
    try:
        simulated = simulation.start(options.topology, options.faults)
    except simulation.SimulationError as error:
        raise LaunchError(str(error)) from error
    try:
        return _connect(None, simulated.kubeconfig, in_cluster=False), simulated
    except BaseException:
        simulated.stop()
        raise


def _connect(context: str | None, kubeconfig: Path | None, in_cluster: bool) -> Cluster:
    try:
        return connect(context=context, kubeconfig=kubeconfig, in_cluster=in_cluster)
    except ClusterError as error:
        raise LaunchError(error.message) from error


def clean_up(options: Options, run_id: str | None, delete: bool) -> int:
    """List or delete the namespaces that runs left behind; 0 where none is left, 3 where one would not go."""
    console = Console(soft_wrap=True)
    cluster, simulated = reach(options)
    try:
        found = leftovers(cluster, run_id)
        if not found:
            console.print("nothing is left of any run")
        elif not delete:
            console.print(f"left of earlier runs: {', '.join(found)}\ndelete them with: gpuproof clean --yes")
        done = [delete_namespace(cluster, name, CLEANUP_WITHIN_S) for name in found] if delete else []
    except ClusterError as error:
        raise LaunchError(f"{cluster.name}: {error.message}") from error
    finally:
        release(cluster, simulated)
    for one in done:
        console.print(f"{one.namespace}: {'deleted' if one.deleted else 'still there: ' + '; '.join(one.left)}")
    return 0 if all(one.deleted for one in done) else 3


def release(cluster: Cluster, simulated: simulation.Simulation | None) -> None:
    """Close the connection, and the simulated cluster with everything in it."""
    try:
        cluster.close()
    finally:
        if simulated is not None:
            simulated.stop()


def new_run_id() -> str:
    """A name for a run: the second it began (UTC) and four random digits; fit for a namespace."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)


def _interrupt_on_signals(launched: Launched) -> Callable[[], None]:
    """SIGTERM and a lost terminal end a run as Ctrl-C does, and the report names which of them it was."""

    def interrupt(number: int, _frame: object) -> None:
        launched.signal_name = signal.Signals(number).name
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    return restore


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Tidying up is bounded in time; a second Ctrl-C must not leave the cluster with our pods on its GPUs."""

    def explain(_number: int, _frame: object) -> None:
        print("gpuproof: removing the run's namespace, this ends by itself (kill -9 leaves it behind)", file=sys.stderr)  # noqa: T201 - a signal handler has no other voice

    previous = {number: signal.signal(number, explain) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
