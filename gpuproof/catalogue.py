"""Which checks exist: read from the source of `acceptance/` and of private check folders, without running any of it.

Must not know a profile, a cluster or pytest's own collection.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof import node_loss
from gpuproof.limits import Asks
from gpuproof.pod_shape import PodShapeError, read_shape

_ROOT = Path(__file__).resolve().parent.parent
ACCEPTANCE = _ROOT / "acceptance"
WORKLOADS = _ROOT / "workloads"
TRAINING = "training"
"""The program behind `kill_training`; it is no sweep over nodes."""


class CatalogueError(ValueError):
    """A file of checks that is not one: says which file, what is wrong and what belongs there."""


@dataclass(frozen=True)
class TestCase:
    """One test function of a check: its name and its docstring (Why, Given, When, Then)."""

    __test__ = False  # pytest: not a test class

    name: str
    doc: str
    arguments: tuple[str, ...]
    workloads: tuple[str, ...]
    """The programs it runs in pods, by their names in `workloads/`."""
    experiments: tuple[str, ...] = ()
    """What it has the gang do."""
    kills: tuple[str, ...] = ()
    """How it has a training killed."""


@dataclass(frozen=True)
class Check:
    """One question to the cluster and the file that asks it."""

    name: str
    file: Path
    doc: str
    requires: tuple[str, ...]
    cases: tuple[TestCase, ...]

    @property
    def question(self) -> str:
        """The first paragraph of the module's docstring, on one line."""
        return " ".join(self.doc.strip().split("\n\n")[0].split())

    @property
    def why(self) -> str:
        """Why it matters: what its tests say after "Why:", on one line."""
        said = [part.strip() for case in self.cases for part in case.doc.split("\n\n")]
        whys = [" ".join(part.removeprefix("Why:").split()) for part in said if part.startswith("Why:")]
        return " ".join(why[:1].upper() + why[1:] for why in whys)

    @property
    def asks_cluster(self) -> bool:
        """Whether the cluster as a whole is one of its subjects."""
        return self.asks_gang or any("cluster" in case.arguments for case in self.cases)

    @property
    def asks_gang(self) -> bool:
        """Whether it asks the cluster by a pod on each node: then a node that cannot be asked stands for all of it."""
        return any("gang" in case.arguments for case in self.cases)

    @property
    def experiments(self) -> tuple[str, ...]:
        """What it has the gang do, each once."""
        return tuple(dict.fromkeys(name for case in self.cases for name in case.experiments))

    @property
    def workloads(self) -> tuple[str, ...]:
        """Every program it runs in pods, each once."""
        return tuple(dict.fromkeys(name for case in self.cases for name in case.workloads))

    @property
    def kills(self) -> tuple[str, ...]:
        """Every way in which it has a training killed."""
        return tuple(name for case in self.cases for name in case.kills)

    @property
    def asks_nodes(self) -> bool:
        """Whether every node is one of its subjects."""
        return any("node" in case.arguments for case in self.cases)

    @property
    def asks(self) -> Asks:
        """Whom it asks."""
        return Asks(cluster=self.asks_cluster, nodes=self.asks_nodes)


def load_checks(folders: Iterable[Path] = (ACCEPTANCE,)) -> tuple[Check, ...]:
    """Every check under the folders, those that others require first; raises `CatalogueError`."""
    found: dict[str, Check] = {}
    folders = tuple(folders)
    for folder in folders:
        if not folder.is_dir():
            raise CatalogueError(f"{folder}: no such folder of checks")
        for file in sorted(folder.rglob("test_*.py")):
            check = _read(file)
            if check.name in found:
                raise CatalogueError(
                    f"{file}: {check.name!r} is already defined in {found[check.name].file}; rename one of the two"
                )
            found[check.name] = check
    for check in found.values():
        for needed in check.requires:
            if needed not in found:
                raise CatalogueError(f"{check.file}: {check.name} requires {needed!r}, which no file defines")
    return _in_order(found, workload_folders(folders))


def subjects_asked(checks: Iterable[Check]) -> dict[str, Asks]:
    """Whom each check asks, by its name: what a profile's limits must fit."""
    return {check.name: check.asks for check in checks}


def _read(file: Path) -> Check:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise CatalogueError(f"{file}: not readable as Python: {error}") from error
    doc = ast.get_docstring(tree)
    if not doc:
        raise CatalogueError(f"{file}: no module docstring; it is the check's question and the report prints it")
    name, requires = _mark(file, tree)
    cases = tuple(
        TestCase(
            item.name,
            ast.get_docstring(item) or "",
            tuple(a.arg for a in item.args.args),
            (*_first_words(item, "run_workload"), *[TRAINING for _ in _first_words(item, "kill_training")]),
            _first_words(item, "run_experiment"),
            _first_words(item, "kill_training"),
        )
        for item in tree.body
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")
    )
    if not cases:
        raise CatalogueError(f"{file}: the check {name!r} has no test function; it would never ask anything")
    return Check(name, file, doc, requires, cases)


def _first_words(function: ast.FunctionDef, called: str) -> tuple[str, ...]:
    """The first argument of each call of that name."""
    calls = [call for call in ast.walk(function) if isinstance(call, ast.Call) and call.args]
    names = [call.args[0] for call in calls if ast.unparse(call.func) == called]
    return tuple(str(name.value) for name in names if isinstance(name, ast.Constant))


def workload_folders(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Where the programs of these folders of checks are: the project's own, then DIR/workloads of every other one."""
    return (WORKLOADS, *(folder / "workloads" for folder in folders if folder != ACCEPTANCE))


def parameters_of(workload: str, folders: Iterable[Path] = (WORKLOADS,)) -> tuple[str, ...] | None:
    """The parameters a program says it takes (its `PARAMETERS`); None where no folder has it."""
    for folder in folders:
        file = folder / f"{workload}.py"
        if not file.is_file():
            continue
        for item in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(item, ast.Assign) and _assigns(item, "PARAMETERS"):
                return tuple(str(name) for name in ast.literal_eval(item.value))
        return ()
    return None


def _mark(file: Path, tree: ast.Module) -> tuple[str, tuple[str, ...]]:
    for item in tree.body:
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call) and _assigns(item, "pytestmark"):
            call = item.value
            if ast.unparse(call.func) != "pytest.mark.check":
                continue
            try:
                (name,) = (ast.literal_eval(argument) for argument in call.args)
                requires: list[str] = next(
                    (ast.literal_eval(k.value) for k in call.keywords if k.arg == "requires"), []
                )
            except ValueError as error:
                raise CatalogueError(
                    f"{file}: pytest.mark.check takes one name and requires=[names]: {error}"
                ) from error
            return str(name), tuple(str(needed) for needed in requires)
    raise CatalogueError(f'{file}: no line `pytestmark = pytest.mark.check("name")`; every file is one named check')


def _assigns(item: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in item.targets)


def _stays(check: Check, programs: Sequence[Path]) -> bool:
    try:
        return any(read_shape(name, programs).stays for name in check.workloads)
    except PodShapeError as error:
        raise CatalogueError(str(error)) from error


def _in_order(found: dict[str, Check], programs: Sequence[Path]) -> tuple[Check, ...]:
    ordered: list[Check] = []
    placed: set[str] = set()

    def place(check: Check, trail: Sequence[str]) -> None:
        if check.name in trail:
            raise CatalogueError(f"{check.file}: {' -> '.join([*trail, check.name])} require each other")
        if check.name in placed:
            return
        for needed in check.requires:
            place(found[needed], [*trail, check.name])
        placed.add(check.name)
        ordered.append(check)

    # Pods that stay are asked when all else has been, and what they need comes first: they hold over the whole run.
    staying = [check for check in found.values() if _stays(check, programs)]
    for needed in dict.fromkeys(name for check in staying for name in check.requires):
        place(found[needed], [])
    # And a node that is taken away is missed by whatever comes after.
    for check in sorted(found.values(), key=lambda check: (node_loss.KILL in check.kills, check in staying)):
        place(check, [])
    return tuple(ordered)
