"""Checks are found by reading their source; what is no check is refused by name, never skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.catalogue import CatalogueError, load_checks

GOOD = '''"""Alpha: does it
work?

More."""
import pytest
pytestmark = pytest.mark.check("alpha", requires=["beta"])
def test_it(node, run_workload, hold):
    """Why: because."""
    hold(run_workload("alpha_program", node))
'''
BETA = '"""Beta?"""\nimport pytest\npytestmark = pytest.mark.check("beta")\ndef test_b(cluster, hold): hold()\n'


def test_the_projects_own_checks_are_all_named_and_ask_something() -> None:
    checks = {check.name: check for check in load_checks()}
    assert {"gpu_inventory", "cuda_runtime"} <= set(checks)
    assert checks["cuda_runtime"].requires == ("gpu_inventory",)
    for check in checks.values():
        assert check.question.endswith("?")
        assert all("Why:" in case.doc and "Then:" in case.doc for case in check.cases)


def test_a_check_is_read_without_being_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("raise SystemExit('ran')\n" + GOOD.replace('"""Alpha', '"""Alpha', 1))
    (tmp_path / "test_b.py").write_text(BETA)
    (tmp_path / "test_a.py").write_text(GOOD + "raise SystemExit('ran')\n")
    beta, alpha = load_checks([tmp_path])
    assert (alpha.question, alpha.workloads, alpha.asks_nodes) == ("Alpha: does it work?", ("alpha_program",), True)
    assert (beta.name, beta.asks_cluster, beta.asks_nodes) == ("beta", True, False)


def test_what_is_held_over_the_run_is_asked_last() -> None:
    *earlier, held, _ = load_checks()
    assert held.name == "storage_long_hold"
    assert [check.name for check in earlier[:2]] == list(held.requires)


def test_a_node_is_taken_away_when_nothing_else_is_left_to_ask() -> None:
    assert [check.name for check in load_checks() if "node_lost" in check.kills] == [load_checks()[-1].name]


def test_a_shape_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(GOOD.replace(', requires=["beta"]', ""))
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "alpha_program.py").write_text("POD = {'stays': 1}\n")
    with pytest.raises(CatalogueError, match="POD stays: expected True or False"):
        load_checks([tmp_path])


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"test_a.py": "import pytest\npytestmark = pytest.mark.check('a')\n"}, "docstring"),
        ({"test_a.py": '"""Q?"""\ndef test_x(): pass\n'}, "pytestmark"),
        ({"test_a.py": '"""Q?"""\nimport pytest\npytestmark = pytest.mark.check("a")\n'}, "no test function"),
        (
            {"test_a.py": '"""Q?"""\nimport pytest\npytestmark = pytest.mark.check(name)\ndef test_x(): pass\n'},
            "one name",
        ),
        ({"test_a.py": GOOD}, "requires 'beta'"),
        ({"test_a.py": GOOD, "test_b.py": BETA, "test_c.py": BETA}, "already defined"),
        (
            {"test_a.py": GOOD, "test_b.py": BETA.replace('("beta")', '("beta", requires=["alpha"])')},
            "require each other",
        ),
    ],
)
def test_what_is_no_check_is_refused_and_named(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CatalogueError, match=complaint) as caught:
        load_checks([tmp_path])
    assert str(tmp_path) in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="no such folder"):
        load_checks([tmp_path / "absent"])
