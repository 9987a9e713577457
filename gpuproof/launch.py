"""From a user's options to a run in progress, and from its end to reports: profile, cluster, folder, signals.

It must not know pytest or a terminal; every complaint is a `LaunchError` in plain words.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from gpuproof import simulation
from gpuproof.acceptances import folders_beside, last_acceptances
from gpuproof.baseline import Baseline, BaselineError, read_baseline, recorded_baseline
from gpuproof.bundle import copy_profile, seal
from gpuproof.catalogue import (
    workload_folders,
)
from gpuproof.cluster.port import Cluster, ClusterError
from gpuproof.cost import costs, gpu_hours
from gpuproof.decision import Decision
from gpuproof.noted import noting
from gpuproof.options import LaunchError, Listener, Options
from gpuproof.plan import make_plan
from gpuproof.preflight import read
from gpuproof.profile import Profile
from gpuproof.reaching import reach, release
from gpuproof.record import Recorder, RecordError, read_record
from gpuproof.report import ReportPaths, RunView, write_reports
from gpuproof.report.view import SubjectView
from gpuproof.resume import ResumeError, read_earlier
from gpuproof.run import Run
from gpuproof.run_folder import RECORD, FolderError, LinesBySubject, disown, lines_so_far, own
from gpuproof.setting import Setting, WrongClusterError


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
            kubeconfig=simulated.kubeconfig if simulated is not None else options.kubeconfig,
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
        _refuse_cost(options, run)
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


def _refuse_cost(options: Options, run: Run) -> None:
    """Before a pod is made: what is asked may hold GPUs for longer than somebody is willing to pay for."""
    if options.max_gpu_hours is None:
        return
    profile, folders = run.setting.profile, run.setting.folders
    nodes = [name for name in run.node_names if not options.nodes or name in options.nodes]
    asked = [check for check in run.setting.checks if not options.only or check.name in options.only]
    plan = make_plan(asked, profile, nodes)
    found = gpu_hours(costs(asked, profile, plan, folders))
    if found > options.max_gpu_hours:
        raise LaunchError(
            f"--max-gpu-hours {options.max_gpu_hours:g}: the checks asked for may hold GPUs for {found:.2f} GPU-hours "
            f"by the deadlines of {profile.path}; nothing was started\n"
            "  next:     `gpuproof plan` shows them check by check; allow more, ask for less with --only or --nodes, "
            "or lower [deadlines]"
        )


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
