"""Events for the fatal reasons: often the only place where Kubernetes says why nothing happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import Build, Cluster, Namespace, condition, phase, waiting
from tests.contract.http import Json
from tests.contract.waiting import holds, until

ABSENT = "contract.invalid/absent:1"


def _env(name: str, source: Json) -> Json:
    return {"env": [{"name": name, "valueFrom": source}]}


@pytest.fixture(scope="module")
def stuck(cluster: Cluster, build: Build) -> Iterator[Namespace]:
    """A namespace with pods that cannot start, each for another reason."""
    ns = cluster.namespace()
    c = build.container
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    specs: dict[str, dict[str, Json]] = {
        "selector": {"nodeSelector": {"no": "such"}},
        "resource": {"containers": [c("c", "true", resources={"limits": {"example.com/none": "1"}})]},
        "pull": {"containers": [{**c("c", "true"), "image": ABSENT}]},
        "never": {"containers": [{**c("c", "true"), "image": ABSENT, "imagePullPolicy": "Never"}]},
        "name": {"containers": [{**c("c", "true"), "image": "UPPER/Case:1"}]},
        "cm-env": {"containers": [c("c", "true", **_env("A", {"configMapKeyRef": {"name": "cm", "key": "k"}}))]},
        "secret-env": {"containers": [c("c", "true", envFrom=[{"secretRef": {"name": "sec"}}])]},
        "cm-volume": {"containers": [c("c", "true", **mount)], "volumes": [{"name": "v", "configMap": {"name": "cm"}}]},
        "claim": {
            "containers": [c("c", "true", **mount)],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}],
        },
        "hostpath": {
            "containers": [c("c", "true", **mount)],
            "volumes": [{"name": "v", "hostPath": {"path": "/absent/dir", "type": "Directory"}}],
        },
        "start": {"containers": [c("c", ["/no/such"])]},
    }
    for name, spec in specs.items():
        ns.create("pods", build.pod(name, "true", **spec))
    yield ns
    ns.drop()


def _event(ns: Namespace, pod: str, reason: str) -> Json:
    return until(
        lambda: ns.events(pod, reason), ns.cluster.s(60), lambda: f"{reason} of {pod}; there are {ns.events(pod)}"
    )[-1]


@pytest.mark.parametrize(
    ("pod", "reason", "text"),
    [
        ("selector", "FailedScheduling", "didn't match Pod's node affinity/selector"),
        ("resource", "FailedScheduling", "Insufficient example.com/none"),
        ("claim", "FailedScheduling", 'persistentvolumeclaim "none" not found'),
        ("pull", "Failed", "ErrImagePull"),
        ("pull", "BackOff", f'Back-off pulling image "{ABSENT}"'),
        ("never", "ErrImageNeverPull", f'Container image "{ABSENT}" is not present with pull policy of Never'),
        ("name", "InspectFailed", "invalid reference format"),
        ("cm-env", "Failed", 'Error: configmap "cm" not found'),
        ("secret-env", "Failed", 'Error: secret "sec" not found'),
        ("cm-volume", "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "cm" not found'),
        ("hostpath", "FailedMount", "hostPath type check failed: /absent/dir is not a directory"),
        ("start", "Failed", "no such file or directory"),
    ],
)
def test_a_warning_says_why(stuck: Namespace, pod: str, reason: str, text: str) -> None:
    def found() -> list[Json]:
        return [event for event in stuck.events(pod, reason) if text in event["message"]]

    event = until(found, stuck.cluster.s(60), lambda: f"{text!r}; there are {stuck.events(pod)}")[0]
    assert event["type"] == ("Normal" if reason == "BackOff" else "Warning")
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == stuck.read("pods", pod)["metadata"]["uid"]


@pytest.mark.parametrize(
    ("pod", "reasons"),
    [
        ("pull", {"ErrImagePull", "ImagePullBackOff"}),
        ("never", {"ErrImageNeverPull"}),
        ("name", {"InvalidImageName"}),
        ("cm-env", {"CreateContainerConfigError"}),
        ("secret-env", {"CreateContainerConfigError"}),
        ("cm-volume", {"ContainerCreating"}),
        ("hostpath", {"ContainerCreating"}),
    ],
)
def test_the_waiting_reason_is_one_of_few(stuck: Namespace, pod: str, reasons: set[str]) -> None:
    stuck.wait("pods", pod, lambda found: waiting(found) in reasons)
    holds(lambda: phase(stuck.read("pods", pod)) == "Pending", 0.2, "the phase stays Pending")


def test_an_unschedulable_pod_has_a_condition_and_no_container_status(stuck: Namespace) -> None:
    pod = stuck.wait("pods", "selector", lambda found: condition(found, "PodScheduled") == "False")
    assert condition(pod, "PodScheduled", "reason") == "Unschedulable"
    message = condition(pod, "PodScheduled", "message") or ""
    total = len(stuck.cluster.nodes())
    assert message.startswith(f"0/{total} nodes are available: ")
    assert "containerStatuses" not in pod["status"]
    assert "nodeName" not in pod["spec"]


def test_scheduler_events_have_another_shape_than_the_kubelets(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true"))
    ns.finished("p")
    scheduled = _event(ns, "p", "Scheduled")
    assert scheduled["eventTime"]
    assert scheduled["reportingComponent"] == "default-scheduler"
    assert scheduled["action"] == "Binding"
    assert not scheduled.get("count")
    started = _event(ns, "p", "Started")
    assert (started["count"], started["source"]["component"]) == (1, "kubelet")
    assert started["firstTimestamp"] <= started["lastTimestamp"]
    assert started["involvedObject"]["fieldPath"] == "spec.containers{c}"


def test_repeats_raise_the_count_of_one_event(stuck: Namespace) -> None:
    event = until(
        lambda: [found for found in stuck.events("cm-volume", "FailedMount") if found["count"] >= 2],
        stuck.cluster.s(60),
        "a second failure to mount",
    )
    assert len(event) == 1


def test_events_are_found_by_fields(stuck: Namespace) -> None:
    _event(stuck, "start", "Failed")
    selector = "involvedObject.name=start,reason=Failed,type=Warning"
    found = stuck.items("events", fieldSelector=selector)
    assert found
    assert {(event["involvedObject"]["name"], event["reason"]) for event in found} == {("start", "Failed")}


def test_events_of_the_newer_api_are_the_same_objects(stuck: Namespace) -> None:
    old = _event(stuck, "start", "Failed")
    path = f"/apis/events.k8s.io/v1/namespaces/{stuck.name}/events/{old['metadata']['name']}"
    new = stuck.http.request("GET", path).json
    assert (new["note"], new["regarding"]["name"]) == (old["message"], "start")


def test_events_that_a_client_posts_are_never_merged(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true", nodeSelector={"no": "such"}))
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "mine-"},
        "involvedObject": {"kind": "Pod", "namespace": ns.name, "name": "p"},
        "reason": "Mine",
        "message": "same",
        "type": "Normal",
    }
    for _ in range(5):
        ns.create("events", body)
    assert len(ns.events("p", "Mine")) == 5


def test_an_absent_service_account_is_refused_at_once(ns: Namespace, build: Build) -> None:
    answer = ns.post("pods", build.pod("p", "true", serviceAccountName="none"))
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    assert 'serviceaccount "none" not found' in answer.json["message"]


def test_more_gpus_than_a_node_has_are_unschedulable(cluster: Cluster, ns: Namespace, build: Build) -> None:
    most = max(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in cluster.nodes())
    if not most:
        pytest.skip("no node has nvidia.com/gpu")
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(most + 1)}}}
    ns.create("pods", build.pod("p", "true", containers=[build.container("c", "true", **limits)]))
    pod = ns.wait("pods", "p", lambda found: condition(found, "PodScheduled") == "False")
    assert "Insufficient nvidia.com/gpu" in (condition(pod, "PodScheduled", "message") or "")
