"""A finished run in a folder, as gpuproof leaves it; only the pods are played."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.bundle import copy_profile, seal
from gpuproof.catalogue import Check, TestCase, subjects_asked
from gpuproof.cluster.port import NAMESPACES, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.failure import JobFailure, Reason
from gpuproof.jobs import NotVisited, OnResult, SweepRequest, Visited
from gpuproof.noted import noting
from gpuproof.profile import Profile, load_profile
from gpuproof.record import Recorder, read_record
from gpuproof.report import RunView, write_reports
from gpuproof.run import Run
from gpuproof.run_folder import RECORD
from gpuproof.setting import Setting, today
from gpuproof.suite import NodeSubject
from gpuproof.visits import Timings
from tests.gpuproof.profiles import HEAD
from tests.gpuproof.toy_cluster import ToyCluster, node
from workloads.contract import Measurement, Sample

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
CHECKS = tuple(
    Check(name, Path(f"test_{name}.py"), "Does it?", requires, (TestCase("test_it", "", ("node",), (name,)),))
    for name, requires in (("speed", ()), ("words", ("speed",)))
)
PROFILE = (
    HEAD.replace("nodes         = 4", "nodes         = 6")
    .replace('{ "node-pool" = "train" }', '{ "pool" = "a" }')
    .replace("run_s        = 10", "run_s        = 100")
    + """
[[limit]]
check      = "speed"
metric     = "busbw"
unit       = "GB/s"
per        = "gpu"
at         = { bytes = 1024 }
min        = 400
severity   = "fail"
provenance = { kind = "derived", formula = "by the test" }

[[limit]]
check        = "speed"
metric       = "busbw"
unit         = "GB/s"
per          = "gpu"
at           = { bytes = 2048 }
min_fraction = 0.5
of           = "fleet_median"
severity     = "fail"
provenance   = { kind = "derived", formula = "by the test" }

[[limit]]
check      = "words"
fact       = "driver"
expected   = "gpu_driver"
severity   = "fail"
provenance = { kind = "derived", formula = "by the test" }

[[limit]]
check      = "words"
fact       = "uuid"
per        = "gpu"
unique     = true
severity   = "fail"
provenance = { kind = "derived", formula = "by the test" }
"""
)


class Known(ToyCluster):
    """A toy that says who it is, and that it is none to pay for."""

    def server_version(self) -> str:
        return "v1.36.2+simcluster"

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw:
        if (resource, name) == (NAMESPACES, "kube-system"):
            return {"metadata": {"uid": "uid-of-the-cluster"}}
        return super().get(resource, name, namespace=namespace)


@dataclass(frozen=True)
class Played:
    """Pods that answer at once; `slow` nodes measure too little, `lost` ones give no measurement."""

    slow: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    scale: float = 1.0

    def sweep(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:  # noqa: ARG002 - of the type
        for name in request.candidates:
            if name in self.lost:
                failure = JobFailure(Reason.OOM_KILLED, f"{name}: out of memory; raise its limit", ("OOMKilled",))
                on_result(NotVisited(name, f"pod-{name}", failure))
            else:
                found = self._measured(request.workload, name)
                on_result(Visited(name, f"pod-{name}", 0, found, Timings(0.1, 0.3, 1.0)))

    def _measured(self, workload: str, name: str) -> Measurement:
        value = 300.0 if name in self.slow else 500.0 * self.scale + NODES.index(name)
        samples = tuple(
            Sample("busbw", value + gpu + size / 1024, "GB/s", {"bytes": size, "gpu": gpu})
            for size in (1024, 2048)
            for gpu in (0, 1)
        )
        facts: Mapping[str, str | list[str | int | float | bool]] = {
            "driver": "550.107.02",
            "uuid": [f"GPU-{name}-{gpu}" for gpu in (0, 1)],
        }
        return Measurement(workload, "run", name, f"pod-{name}", 1, 1, samples, facts, {"torch": "2.13.0"})


def profile_of(folder: Path, text: str = PROFILE) -> Profile:
    """Load the profile from a file in `folder`."""
    path = folder / "profile.toml"
    path.write_text(text, encoding="utf-8")
    return load_profile(path, known_checks=subjects_asked(CHECKS), today=today())


def finished(
    folder: Path, *, slow: tuple[str, ...] = (), lost: tuple[str, ...] = (), scale: float = 1.0, text: str = PROFILE
) -> Path:
    """Run, decide, report and seal; returns the run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    profile, directory = profile_of(folder, text), folder / "run"
    with Recorder(directory / RECORD) as recorder:
        cluster = Known({name: node(name) for name in NODES})
        setting = Setting(f"run-of-{folder.name}", profile, CHECKS, ("run",), simulated=True)
        run = Run(setting, noting(cluster, directory), recorder)
        run.questions.sweep = Played(frozenset(slow), frozenset(lost), scale).sweep
        run.look()
        run.begin()
        run.verdicts.asked = {(check.name, name) for check in CHECKS for name in NODES}
        for check in CHECKS:
            for name in NODES:
                settled = run.verdicts.settled(check.name, name)
                if settled is not None:
                    run.verdicts.settle(check.name, name, settled)
                else:
                    answer = run.questions.ask(check.name, check.name, NodeSubject(name))
                    run.judge(check.name, name, [answer], time.monotonic())
        run.close()
    copy_profile(profile, directory)
    write_reports(view_of(directory), directory)
    seal(directory)
    return directory


def view_of(directory: Path) -> RunView:
    """What the reports show of a run."""
    return RunView.from_record(read_record(directory / RECORD))
