"""Owns running the tests of a module against its mutants, each in a forked process; must not know what is changed."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutation.operators import Mutant

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
CPU_S = 10
DEADLINE_S = 180.0
"""A mutant that computes or waits longer has been noticed: nobody would wait for it. The tests themselves take 1 s."""

OPTIONS = (
    *("-x", "-q", "--import-mode=importlib", "--noconftest", "-p", "no:cacheprovider", "-W", "error"),
    *("--rootdir", str(ROOT), "-c", str(Path(__file__).with_name("pytest.ini"))),
)
"""A bare pytest: the plugins of the project's own run cost more than most of these tests."""

TESTS = ROOT / "tests" / "gpuproof"
PROFILES = ("test_profile_refusals.py", "test_profile.py")
TESTS_OF: dict[str, tuple[str, ...]] = {
    "verdict": ("test_verdict.py",),
    "finding": ("test_verdict.py", "test_fleet.py"),
    "fleet": ("test_fleet.py",),
    "decision": ("test_decision.py",),
    "limits": ("test_limits.py", "test_verdict.py"),
    "expectation": ("test_limits.py", "test_decision.py", "test_verdict.py"),
    "profile_limits": PROFILES,
    "profile_merge": PROFILES,
    "profile": PROFILES,
    "profile_model": PROFILES,
}
"""The modules that are mutated, and the tests that must notice. What only words a refusal is left out."""

IMPORTED_IN_ORDER = (
    *("failure", "expectation", "limits", "finding", "fleet", "verdict", "decision"),
    *("profile_error", "profile_model", "profile_explain", "profile_limits", "profile_merge", "profile"),
)
"""Every module here imports only modules before it, so that a mutant keeps those and loads the others anew."""


def preload() -> None:
    """Import the judging once, so that the forked processes need not."""
    for module in IMPORTED_IN_ORDER:
        importlib.import_module(f"gpuproof.{module}")


def source_path(module: str) -> Path:
    """Return the file of a module of the harness."""
    return ROOT / "gpuproof" / f"{module}.py"


def run_all(jobs: Sequence[tuple[str, Mutant]], on_done: Callable[[str, Mutant, bool], None]) -> None:
    """Test every mutant, at most `WORKERS` at a time, and say of each whether it was noticed."""
    running: dict[int, tuple[str, Mutant, float]] = {}
    waiting = iter(jobs)
    while True:
        for module, mutant in _take(waiting, WORKERS - len(running)):
            running[_fork(module, mutant)] = (module, mutant, time.monotonic())
        if not running:
            return
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            module, mutant, _ = running.pop(pid)
            on_done(module, mutant, status != 0)
        else:
            _end_late(running)
            time.sleep(0.01)


def passes_unchanged(module: str) -> bool:
    """Say whether the tests of a module pass on the module as it is, or all that follows would prove nothing."""
    source = source_path(module).read_text(encoding="utf-8")
    noticed: list[bool] = []
    run_all([(module, Mutant("unchanged", 0, source))], lambda _m, _u, seen: noticed.append(seen))
    return not noticed[0]


def _take(waiting: Iterator[tuple[str, Mutant]], count: int) -> Iterator[tuple[str, Mutant]]:
    for _ in range(count):
        job = next(waiting, None)
        if job is None:
            return
        yield job


def _end_late(running: dict[int, tuple[str, Mutant, float]]) -> None:
    for pid, (_, _, started) in running.items():
        if time.monotonic() - started > DEADLINE_S:
            os.kill(pid, signal.SIGKILL)


def _fork(module: str, mutant: Mutant) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        for later in IMPORTED_IN_ORDER[IMPORTED_IN_ORDER.index(module) :]:
            sys.modules.pop(f"gpuproof.{later}", None)
        sys.meta_path.insert(0, _Finder(module, mutant.source))
        tests = [str(TESTS / name) for name in TESTS_OF[module] if (TESTS / name).exists()]
        code = int(pytest.main([*OPTIONS, *tests]))
    finally:
        os._exit(code)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source than its file has."""

    def __init__(self, module: str, source: str) -> None:
        self.name = f"gpuproof.{module}"
        self.path = source_path(module)
        self.source = source

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: types.ModuleType) -> None:
        code = compile(self.source, str(self.path), "exec")
        exec(code, module.__dict__)
