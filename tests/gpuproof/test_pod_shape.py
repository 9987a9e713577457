"""What a program says about its pod: read without running it, and refused by file and key where it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.pod_shape import PodShape, PodShapeError, read_shape


def declared(folder: Path, text: str) -> PodShape:
    (folder / "probe.py").write_text(text, encoding="utf-8")
    return read_shape("probe", (folder,))


def test_a_program_that_says_nothing_holds_the_whole_node(tmp_path: Path) -> None:
    shape = declared(tmp_path, "raise SystemExit('never run')\n")
    assert (shape, shape.gpus_of(8)) == (PodShape("all", rdma=False, claims=()), 8)
    assert read_shape("no_such", (tmp_path,)) == shape


def test_what_a_program_says_is_what_it_gets(tmp_path: Path) -> None:
    shape = declared(tmp_path, "POD = {'gpus': 'none', 'rdma': True, 'claims': ['shared', 'ckpt-1']}\n")
    assert (shape, shape.gpus_of(8)) == (PodShape("none", rdma=True, claims=("shared", "ckpt-1")), 0)


def test_a_pod_may_ask_for_some_gpus_and_have_company(tmp_path: Path) -> None:
    shape = declared(
        tmp_path, "POD = {'gpus': 1, 'containers': ['bystander'], 'tempted': True, 'scratch': True, 'kept': True}\n"
    )
    assert (shape.gpus_of(8), shape.containers, shape.tempted, shape.scratch) == (1, ("bystander",), True, True)
    assert (shape.kept, shape.beside) == (True, False)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("POD = {'gpu': 'all'}", "unknown key 'gpu'"),
        ("POD = {'gpus': 0}", "POD gpus"),
        ("POD = {'stays': True}", "POD stays"),
        ("POD = {'gpus': 'none', 'stays': True, 'kept': True}", "POD stays"),
        ("POD = {'gpus': True}", "POD gpus"),
        ("POD = {'gpus': 'two'}", "POD gpus"),
        ("POD = {'kept': 1}", "POD kept"),
        ("POD = {'kept': True, 'beside': True}", "kept and beside"),
        ("POD = {'containers': ['hold']}", "'hold' is in every pod"),
        ("POD = {'containers': ['a', 'a']}", "each name once"),
        ("POD = {'containers': 'bystander'}", "POD containers"),
        ("POD = {'rdma': 1}", "POD rdma"),
        ("POD = {'claims': 'shared'}", "POD claims"),
        ("POD = {'claims': ['../etc']}", "POD claims"),
        ("POD = ['gpus']", "expected a dict"),
        ("POD = dict(gpus='all')", "expected a literal"),
    ],
)
def test_anything_else_is_refused_by_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(PodShapeError, match=named) as refused:
        declared(tmp_path, text)
    assert str(tmp_path / "probe.py") in str(refused.value)
