"""The in-process client keeps Kubernetes' promises about names, versions, deletion and binding."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from simcluster.api.port import ApiError, Object, PatchKind
from simcluster.api.server import ApiServer


def pod(name: str = "p", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "simcluster.local/python:3"}], **spec},
    }


def config(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


async def test_a_new_pod_gets_what_admission_adds(api: ApiServer) -> None:
    made = await api.client.create("pods", pod(), "default")
    assert made["metadata"]["uid"]
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["spec"]["serviceAccountName"] == "default"
    assert [t["key"] for t in made["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert made["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


async def test_generate_name_makes_distinct_names(api: ApiServer) -> None:
    body = {**pod(), "metadata": {"generateName": "j-0-"}}
    names = {(await api.client.create("pods", body, "default"))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("j-0-") and len(name) == 9 for name in names)


async def test_the_second_of_a_name_is_refused(api: ApiServer) -> None:
    await api.client.create("configmaps", config("a"), "default")
    with pytest.raises(ApiError) as refused:
        await api.client.create("configmaps", config("a"), "default")
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")


async def test_an_absent_namespace_is_not_found(api: ApiServer) -> None:
    with pytest.raises(ApiError) as refused:
        await api.client.create("configmaps", config("a"), "nowhere")
    assert refused.value.message == 'namespaces "nowhere" not found'


async def test_a_stale_version_conflicts_and_a_no_op_changes_nothing(api: ApiServer) -> None:
    first = await api.client.create("configmaps", config("a", k="1"), "default")
    same = await api.client.update("configmaps", copy.deepcopy(first))
    assert same["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    await api.client.update("configmaps", {**first, "data": {"k": "2"}})
    with pytest.raises(ApiError) as refused:
        await api.client.update("configmaps", {**first, "data": {"k": "3"}})
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")


async def test_status_and_spec_are_written_apart(api: ApiServer) -> None:
    made = await api.client.create("pods", pod(), "default")
    running = await api.client.patch("pods", "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    assert running["status"]["phase"] == "Running"
    ignored = await api.client.patch("pods", "p", {"status": {"phase": "Failed"}}, "default")
    assert ignored["status"]["phase"] == "Running"
    assert ignored["metadata"]["generation"] == made["metadata"]["generation"]


async def test_an_unbound_pod_is_deleted_at_once_and_a_bound_one_with_grace(api: ApiServer) -> None:
    await api.client.create("pods", pod("free"), "default")
    await api.client.delete("pods", "free", "default")
    with pytest.raises(ApiError):
        await api.client.get("pods", "free", "default")
    await api.client.create("pods", pod("bound", terminationGracePeriodSeconds=7), "default")
    await api.client.bind("default", "bound", "gpu-01")
    going = await api.client.delete("pods", "bound", "default")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    await api.client.delete("pods", "bound", "default", grace_period_s=0)
    with pytest.raises(ApiError):
        await api.client.get("pods", "bound", "default")


async def test_a_finalizer_keeps_a_deleted_object(api: ApiServer) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    await api.client.create("pods", body, "default")
    kept = await api.client.delete("pods", "p", "default", grace_period_s=0)
    assert "deletionTimestamp" in kept["metadata"]
    await api.client.patch("pods", "p", {"metadata": {"finalizers": None}}, "default")
    with pytest.raises(ApiError):
        await api.client.get("pods", "p", "default")


async def test_a_pod_is_bound_once(api: ApiServer) -> None:
    await api.client.create("pods", pod(), "default")
    await api.client.bind("default", "p", "gpu-01")
    bound = await api.client.get("pods", "p", "default")
    assert bound["spec"]["nodeName"] == "gpu-01"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(ApiError) as refused:
        await api.client.bind("default", "p", "gpu-02")
    assert refused.value.code == 409


async def test_a_namespace_goes_when_its_finalizer_does(api: ApiServer) -> None:
    await api.client.create("namespaces", {"metadata": {"name": "run"}})
    going = await api.client.delete("namespaces", "run")
    assert going["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError) as refused:
        await api.client.create("configmaps", config("late"), "run")
    assert refused.value.code == 403
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    await api.client.update("namespaces", {**going, "spec": {"finalizers": []}}, subresource="finalize")
    with pytest.raises(ApiError):
        await api.client.get("namespaces", "run")


async def test_a_job_is_tied_to_its_pods_by_labels_and_orphans_them_by_default(api: ApiServer) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1"}]}}
    made = await api.client.create("jobs.batch", {"metadata": {"name": "j"}, "spec": {"template": template}}, "default")
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert (made["spec"]["backoffLimit"], made["spec"]["parallelism"], made["spec"]["completions"]) == (6, 1, 1)
    kept = await api.client.delete("jobs.batch", "j", "default")
    assert kept["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [("app=a", ["a"]), ("app in (a,b)", ["a", "b"]), ("app!=a", ["b", "c"]), ("!app", []), ("app notin (a, b)", ["c"])],
)
async def test_label_selectors(api: ApiServer, selector: str, names: list[str]) -> None:
    for name in ("c", "a", "b"):
        await api.client.create("pods", pod(name), "default")
    found = await api.client.list("pods", "default", label_selector=selector)
    assert [item["metadata"]["name"] for item in found.items] == names


async def test_field_selectors_find_the_pods_of_a_node(api: ApiServer) -> None:
    for name in ("a", "b"):
        await api.client.create("pods", pod(name), "default")
    await api.client.bind("default", "b", "gpu-02")
    found = await api.client.list("pods", field_selector="spec.nodeName=gpu-02,status.phase!=Failed")
    assert [item["metadata"]["name"] for item in found.items] == ["b"]
    with pytest.raises(ApiError) as refused:
        await api.client.list("pods", field_selector="spec.colour=red")
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("merge", {"metadata": {"labels": {"x": "1"}}, "spec": {"activeDeadlineSeconds": 9}}),
        ("strategic", {"spec": {"containers": [{"name": "c", "image": "other:1"}], "activeDeadlineSeconds": 9}}),
        ("json", [{"op": "add", "path": "/metadata/labels/x", "value": "1"}]),
    ],
)
async def test_a_patch_leaves_what_was_handed_out_before_as_it_was(api: ApiServer, kind: PatchKind, body: Any) -> None:
    before = await api.client.create("pods", pod(), "default")
    kept = copy.deepcopy(before)
    after = await api.client.patch("pods", "p", body, "default", kind=kind)
    assert after != before
    assert before == kept
