"""`python -m tests.mutation`: changes the judging in every small way and insists that a test notices each."""

import argparse
import re
import sys
import time

from tests.mutation.operators import Mutant, mutants
from tests.mutation.runner import ROOT, TESTS_OF, passes_unchanged, preload, run_all, source_path

SURVIVORS = ROOT / "tests" / "mutation" / "survivors.md"


def explained() -> set[str]:
    """Return the names of the mutants that the survivors' file explains."""
    return set(re.findall(r"^- `(.+)`$", SURVIVORS.read_text(encoding="utf-8"), re.MULTILINE))


def main() -> int:
    """Run the mutants; exit 0 if every survivor is explained and every explained mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--module", action="append", choices=sorted(TESTS_OF), help="only this module (repeatable)")
    parser.add_argument("--name", action="append", help="only the mutant of this name (repeatable)")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    options = parser.parse_args()
    modules = options.module or list(TESTS_OF)
    jobs = [
        (module, mutant)
        for module in modules
        for mutant in mutants(module, source_path(module).read_text(encoding="utf-8"), options.name or ())
    ]
    if options.list or not jobs:
        say("\n".join(mutant.name for _, mutant in jobs) or "no such mutant")
        return 0 if jobs else 2
    preload()
    for module in sorted({module for module, _ in jobs}):
        if not passes_unchanged(module):
            say(f"the tests of {module} fail on the unchanged module: {', '.join(TESTS_OF[module])}")
            return 2
    return report(jobs, whole=not options.name)


def report(jobs: list[tuple[str, Mutant]], *, whole: bool) -> int:
    """Run the jobs, print the survivors and return the exit code."""
    started = time.monotonic()
    known = explained()
    survivors: list[tuple[str, Mutant]] = []

    def on_done(module: str, mutant: Mutant, noticed: bool) -> None:
        if noticed:
            return
        survivors.append((module, mutant))
        if mutant.name not in known:
            say(f"survived: gpuproof/{module}.py:{mutant.line}\n- `{mutant.name}`")

    run_all(jobs, on_done)
    new = [(module, mutant) for module, mutant in survivors if mutant.name not in known]
    names = {mutant.name for _, mutant in jobs}
    prefixes = tuple(f"{module}." for module in {module for module, _ in jobs})
    surviving = {mutant.name for _, mutant in survivors}
    stale = {name for name in known - surviving if name.startswith(prefixes) and (whole or name in names)}
    for name in sorted(stale):
        say(f"explained in {SURVIVORS.name}, but noticed or gone: {name}")
    say(
        f"{len(jobs)} mutants in {time.monotonic() - started:.0f} s: {len(jobs) - len(survivors)} noticed, "
        f"{len(survivors) - len(new)} survivors explained, {len(new)} not"
    )
    return 1 if new or stale else 0


def say(text: str) -> None:
    """Write a line for the person at the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
