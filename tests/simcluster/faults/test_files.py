"""The fault files: complete, readable, and refused where they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simcluster.api.port import ApiError
from simcluster.faults.admission import CapJobRetries, ForbidJobPods, LimitGpuMemory, PatchSource
from simcluster.faults.engine import FaultEngine
from simcluster.faults.file import FaultError, PatchWorkload, all_faults, find_faults, read_fault
from simcluster.topology import load

WANTED = {
    "black-hole-node",
    "driver-mismatch",
    "gpu-compute-fails",
    "gpu-missing-in-pod",
    "gpu-wrong-results",
    "image-pull-fails",
    "image-pull-fails-on-one-node",
    "measurement-truncated",
    "no-gpu-nodes",
    "node-offers-one-gpu",
    "node-vanishes",
    "pod-never-starts",
    "pod-oom-killed",
    "pod-stuck-silently",
    "pods-forbidden",
    "pods-refused",
    "quota-exhausted",
}


def test_every_fault_is_there_and_expects_something() -> None:
    faults = {fault.id: fault for fault in all_faults()}
    assert set(faults) >= WANTED
    # One that only passes is one to cope with, such as a source that answers on the second try; it must say so.
    coped = {name for name, fault in faults.items() if all(e.verdict == "PASS" and not e.warns for e in fault.expects)}
    assert coped == {"dataset-source-drops", "dataset-source-recovers"}
    assert all(fault.expects for fault in faults.values())


def test_an_unknown_fault_is_refused_by_name() -> None:
    with pytest.raises(FaultError, match="no fault 'nope'; there are: black-hole-node"):
        find_faults(["nope"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('do = "nothing-known"', r"x\.toml: action\.0"),
        ("do = ", r"x\.toml: not TOML"),
        ('do = "offer-gpus"\nnode = "n"\ncount = -1', r"x\.toml: action\.0\.offer-gpus\.count"),
        ('do = "silent-kubelet"\nnode = "n"\nmore = 1', r"x\.toml: action\.0\.silent-kubelet\.more"),
    ],
)
def test_a_wrong_file_is_refused_naming_file_and_key(tmp_path: Path, change: str, told: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        f'id = "x"\ntitle = "t"\nmechanism = "m"\nsource = "s"\n[[action]]\n{change}\n'
        '[[expects]]\ncheck = "c"\nsubject = "all"\nverdict = "FAIL"\n'
    )
    with pytest.raises(FaultError, match=told):
        read_fault(path)


def test_no_gpu_nodes_leaves_the_control_plane_only() -> None:
    shaped = FaultEngine(find_faults(["no-gpu-nodes"])).shape(load("small"))
    assert shaped.control_plane
    assert shaped.pools == []


def gpu_pod() -> dict[str, object]:
    return {
        "metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "name": "j"}]},
        "spec": {
            "containers": [
                {"name": "measure", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
                {"name": "hold"},
            ]
        },
    }


def test_the_memory_limit_is_set_on_gpu_containers_only_and_the_original_stays() -> None:
    hook, pod = LimitGpuMemory("measure", "64Mi"), gpu_pod()
    changed = hook("pods", "CREATE", pod)
    assert changed["spec"]["containers"][0]["resources"]["limits"]["memory"] == "64Mi"
    assert changed["spec"]["containers"][1] == {"name": "hold"}
    assert pod == gpu_pod()
    assert hook("jobs", "CREATE", pod) is pod


def test_only_pods_of_jobs_are_forbidden() -> None:
    hook = ForbidJobPods("no")
    with pytest.raises(ApiError, match='pods "p" is forbidden: no') as refused:
        hook("pods", "CREATE", gpu_pod())
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    own = {"metadata": {"name": "mine"}, "spec": {}}
    assert hook("pods", "CREATE", own) is own


def test_every_exchanged_text_is_in_its_program_exactly_once() -> None:
    folder = Path(__file__).resolve().parents[3] / "workloads"
    patched = 0
    for fault in all_faults():
        sources: dict[str, str] = {}
        for action in fault.action:
            if isinstance(action, PatchWorkload):
                before = sources.get(action.file) or (folder / action.file).read_text(encoding="utf-8")
                sources[action.file] = action.applied(before)
                assert sources[action.file] != before
                patched += 1
        for name, source in sources.items():
            compile(source, name, "exec")
    assert patched


def test_a_text_that_is_not_there_or_there_twice_is_refused() -> None:
    patch = PatchWorkload(do="patch-workload", file="x.py", find="a", replace="b")
    assert patch.applied("a = 1") == "b = 1"
    for source in ("c = 1", "a = a"):
        with pytest.raises(FaultError, match="expected once"):
            patch.applied(source)


def test_only_the_named_file_of_a_new_config_map_is_exchanged() -> None:
    hook = PatchSource("x.py", lambda source: source.replace("a", "b"))
    made = {"metadata": {"name": "m"}, "data": {"x.py": "a", "y.py": "a"}}
    assert hook("configmaps", "CREATE", made)["data"] == {"x.py": "b", "y.py": "a"}
    assert made["data"] == {"x.py": "a", "y.py": "a"}
    empty: dict[str, Any] = {"data": {}}
    assert hook("configmaps", "UPDATE", made) is made
    assert hook("secrets", "CREATE", made) is made
    assert hook("configmaps", "CREATE", empty) is empty


def test_retries_are_taken_from_jobs_that_have_some() -> None:
    hook = CapJobRetries()
    job = {"metadata": {"name": "j"}, "spec": {"backoffLimitPerIndex": 20, "completions": 2}}
    assert hook("jobs.batch", "CREATE", job)["spec"] == {"backoffLimitPerIndex": 0, "completions": 2}
    assert job["spec"] == {"backoffLimitPerIndex": 20, "completions": 2}
    plain: dict[str, Any] = {"metadata": {"name": "j"}, "spec": {}}
    assert hook("jobs.batch", "CREATE", plain) is plain
