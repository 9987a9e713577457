"""The fault files: complete, readable, and refused where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.api.port import ApiError
from simcluster.faults.admission import ForbidJobPods, LimitGpuMemory
from simcluster.faults.engine import FaultEngine
from simcluster.faults.file import FaultError, all_faults, find_faults, read_fault
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
    assert all(
        any(expected.verdict != "PASS" or expected.warns for expected in fault.expects) for fault in faults.values()
    )


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
