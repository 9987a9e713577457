"""The parts of a node that need no process: quantities, references, images, messages, admission, names, statuses."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.api.quantities import parse
from simcluster.node.admission import Refusal, refuse, requests
from simcluster.node.expand import expand
from simcluster.node.hosts import service_lines
from simcluster.node.images import (
    IMAGE_BYTES,
    RELEASED_IMAGE,
    TORCH_IMAGE,
    ImageStore,
    InvalidImageError,
    default_policy,
    parse_image,
)
from simcluster.node.pulling import go_duration
from simcluster.node.restarts import Restarts
from simcluster.node.rootfs import inside
from simcluster.node.status import ContainerRecord, PodView, pod_status, waiting
from simcluster.node.termination import limit_for, message
from simcluster.timing import Timing
from simcluster.topology import TopologyError, load, node_names


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("500m", "0.5"), ("64Mi", 64 << 20), ("1k", 1000), ("1e3", 1000), ("1.5Gi", 3 << 29), ("1E", 10**18)],
)
def test_quantities(text: str, value: int | str) -> None:
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "Mi", "1 Mi", "two", "0x10"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("kill -9 $$", "kill -9 $"),
        ("${A} $A", "${A} $A"),
        ("$$$(A)", "$1"),
        ("$(", "$("),
    ],
)
def test_references(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/app:1", "docker.io/team/app:1"),
        ("localhost/py", "localhost/py:latest"),
        ("r.example:5000/a/b:2", "r.example:5000/a/b:2"),
    ],
)
def test_image_names(name: str, full: str) -> None:
    assert parse_image(name).full == full


def test_an_image_name_with_capitals_is_refused_in_the_kubelets_words() -> None:
    with pytest.raises(
        InvalidImageError, match=r"couldn't parse image name \"UPPER/Case:1\": invalid reference format"
    ):
        parse_image("UPPER/Case:1")


def test_pull_policies() -> None:
    assert [default_policy(name) for name in ("a", "a:latest", "a:1", "r:5000/a")] == [
        "Always",
        "Always",
        "IfNotPresent",
        "Always",
    ]


def test_pulls() -> None:
    store = ImageStore()
    assert store.refusal(parse_image("simcluster.local/python:3")) == ""
    assert store.refusal(parse_image("simcluster.local/python:4")).endswith("simcluster.local/python:4: not found")
    assert "lookup r.invalid on 10.96.0.10:53: read udp" in store.refusal(parse_image("r.invalid/x:1"))
    store.refuse("simcluster.local/torch:2")
    assert not store.has(parse_image("simcluster.local/torch:2"))
    assert "authorization failed" in store.refusal(parse_image("simcluster.local/torch:2"))


def test_an_image_that_comes_for_the_first_time_takes_as_long_as_its_bytes() -> None:
    store, image = ImageStore(registry_bps=IMAGE_BYTES / 4), parse_image(RELEASED_IMAGE)
    assert store.refusal(image) == ""
    assert store.transfer_s(image) == 4
    store.add(image)
    assert store.transfer_s(image) == 0


@pytest.mark.parametrize(("collects", "kept"), [(False, True), (True, False)])
def test_a_node_that_collects_removes_what_no_pod_uses(collects: bool, kept: bool) -> None:
    store, image, pinned = ImageStore(collects=collects), parse_image(RELEASED_IMAGE), parse_image(TORCH_IMAGE)
    store.add(image)
    for pod in ("a", "b"):
        store.use(image, pod)
        store.use(pinned, pod)
    store.let_go("a")
    assert store.has(image)
    store.let_go("b")
    assert store.has(image) is kept
    assert store.has(pinned)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "1ms"), (0.8123, "812ms"), (1.5, "1.5s"), (60.0, "1m0s"), (123.04, "2m3.04s"), (3723.0, "1h2m3s")],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


def test_message_limits() -> None:
    assert [limit_for(count) for count in (1, 3, 4, 5)] == [4096, 4096, 3072, 2457]


def test_bad_utf8_in_a_message_becomes_replacement_characters(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"a\xff\xfeb")
    assert message(tmp_path / "m", b"", policy="File", failed=False, limit=4096) == "a\ufffd\ufffdb"


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def asks(**resources: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {key.replace("_", "/"): value for key, value in resources.items()}}}


def test_requests_are_the_larger_of_inits_and_the_sum_of_the_others() -> None:
    wanted = pod(asks(cpu="1"), asks(cpu="500m"), initContainers=[asks(cpu="2"), asks(cpu="1")])
    assert requests(wanted) == {"cpu": Decimal(2)}
    sidecar = {**asks(cpu="1"), "restartPolicy": "Always"}
    assert requests(pod(asks(cpu="1"), initContainers=[sidecar])) == {"cpu": Decimal(2)}


def test_admission_speaks_as_the_kubelet_does() -> None:
    node = {"cpu": "2", "pods": "110", "nvidia.com/gpu": "8"}
    busy = [pod({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "6"}}})]
    wanted = pod({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "6"}}})
    assert refuse(wanted, busy, node, {}) == Refusal(
        "OutOfnvidia.com/gpu",
        "Node didn't have enough resource: nvidia.com/gpu, requested: 6, used: 6, capacity: 8",
    )
    assert refuse(pod(asks(cpu="900")), [], node, {}) == Refusal(
        "OutOfcpu", "Node didn't have enough resource: cpu, requested: 900000, used: 0, capacity: 2000"
    )
    assert refuse(wanted, [], node, {}) is None


def test_names_of_a_headless_service() -> None:
    endpoints = [
        {
            "metadata": {"name": "svc", "namespace": "a"},
            "subsets": [{"addresses": [{"ip": "10.244.0.9", "hostname": "j-0"}]}],
        }
    ]
    (own,) = service_lines("a", endpoints)
    (other,) = service_lines("b", endpoints)
    assert {"j-0.svc", "j-0.svc.a.svc.cluster.local", "svc"} <= set(own.split())
    assert "j-0.svc" not in other.split()
    assert "j-0.svc.a" in other.split()


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "link", "up"]), max_size=8))
def test_no_container_path_leaves_its_root(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "a").mkdir()
    (root / "link").symlink_to("/a/b")
    (root / "up").symlink_to("../../../..")
    place = Path(inside(str(root), "/" + "/".join(parts)))
    assert place == root or root in place.parents


def record(name: str, state: dict[str, Any], *, finished: bool = False, ready: bool = False) -> ContainerRecord:
    return ContainerRecord(name, "i:1", "app", state, finished=finished, ready=ready)


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("records", "final", "phase", "ready"),
    [
        ([record("c", waiting("ContainerCreating"))], False, "Pending", "ContainersNotReady"),
        ([record("c", {"running": {}}, ready=True)], False, "Running", None),
        ([record("c", ended(0), finished=True)], False, "Running", "PodCompleted"),
        ([record("c", ended(0), finished=True)], True, "Succeeded", "PodCompleted"),
        ([record("c", ended(1), finished=True)], True, "Failed", "PodFailed"),
        (
            [record("a", ended(7), finished=True), record("b", {"running": {}}, ready=True)],
            False,
            "Running",
            "ContainersNotReady",
        ),
    ],
)
def test_phase_and_readiness(records: list[ContainerRecord], final: bool, phase: str, ready: str | None) -> None:
    view = PodView(
        {"metadata": {"name": "p"}}, records, "10.0.0.1", "2026-01-01T00:00:00Z", sandbox_ready=True, final=final
    )
    status = pod_status(view, "2026-01-01T00:00:09Z")
    assert status["phase"] == phase
    found = next(item for item in status["conditions"] if item["type"] == "Ready")
    assert found.get("reason") == ready


def test_conditions_of_others_and_old_transition_times_stay() -> None:
    before = [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
    ]
    given_pod = {"metadata": {"name": "p"}, "status": {"conditions": before}}
    view = PodView(given_pod, [record("c", {"running": {}}, ready=True)], "10.0.0.1", "2026-01-01T00:00:00Z")
    status = pod_status(view, "2026-01-01T00:00:09Z")
    by_type = {item["type"]: item for item in status["conditions"]}
    assert by_type["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
    assert by_type["Initialized"]["lastTransitionTime"] == "2026-01-01T00:00:01Z"
    assert by_type["Ready"]["lastTransitionTime"] == "2026-01-01T00:00:09Z"


def test_restarts_come_at_once_and_then_back_off() -> None:
    restarts = Restarts("app", "OnFailure", Timing(0.1))
    assert restarts.wanted(1)
    assert not restarts.wanted(0)
    shown = []
    for _ in range(8):
        shown.append(restarts.shown_s)
        restarts.advance()
    assert shown == [1, 10, 20, 40, 80, 160, 300, 300]
    assert restarts.delay_s == pytest.approx(30.0)
    assert Restarts("sidecar", "Never", Timing()).wanted(0)
    assert not Restarts("app", "Never", Timing()).wanted(1)


def test_topologies(tmp_path: Path) -> None:
    assert node_names(load("small").pools[0]) == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert len(node_names(load("light-512").pools[0])) == 512
    assert sum(pool.nodes for pool in load("rack").pools) == 16
    path = tmp_path / "t.toml"
    path.write_text('[[pools]]\nprefix = "n-"\nnodes = "many"\n')
    with pytest.raises(TopologyError, match=r"t\.toml: pools\.0\.nodes"):
        load(str(path))
    with pytest.raises(TopologyError, match="no topology"):
        load("nowhere")
