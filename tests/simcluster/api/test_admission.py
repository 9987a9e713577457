"""Quotas, limit ranges, evictions and hooks refuse in a real cluster's words."""

from __future__ import annotations

import copy
from typing import Literal

import pytest

from simcluster.api.port import ApiError, KubeletRegistry, Object
from simcluster.api.server import ApiServer

from .conftest import Http, container, pod, run_pod


async def refused(api: ApiServer, body: Object) -> ApiError:
    """The refusal of a pod."""
    with pytest.raises(ApiError) as error:
        await api.client.create("pods", body, "default")
    return error.value


async def quota(api: ApiServer, **hard: str) -> None:
    """A quota; underscores stand for what Python names cannot hold."""
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    await api.client.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": named}}, "default")


async def test_a_quota_counts_pods_that_are_not_over(api: ApiServer) -> None:
    await quota(api, pods="1")
    await api.client.create("pods", pod("a"), "default")
    error = await refused(api, pod("b"))
    assert error.code == 403
    assert error.message == 'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    await api.client.patch("pods", "a", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    await api.client.create("pods", pod("b"), "default")


async def test_a_quota_of_gpus(api: ApiServer) -> None:
    await quota(api, requests_nvidia_com__gpu="3")
    body = pod("gpu", container(resources={"limits": {"nvidia.com/gpu": "4"}}))
    error = await refused(api, body)
    assert error.message.endswith(
        "exceeded quota: q, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=0, "
        "limited: requests.nvidia.com/gpu=3"
    )


async def test_a_quota_of_memory_demands_that_it_is_said(api: ApiServer) -> None:
    await quota(api, limits_memory="1Gi", requests_cpu="1")
    error = await refused(api, pod("bare"))
    assert error.message.endswith("failed quota: q: must specify limits.memory for: c; requests.cpu for: c")


async def limits(api: ApiServer) -> None:
    """A range for memory."""
    item = {
        "type": "Container",
        "max": {"memory": "128Mi"},
        "min": {"memory": "16Mi"},
        "default": {"memory": "64Mi"},
        "defaultRequest": {"memory": "32Mi"},
    }
    await api.client.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [item]}}, "default")


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        ("1Gi", "maximum memory usage per Container is 128Mi, but limit is 1Gi"),
        ("8Mi", "minimum memory usage per Container is 16Mi, but request is 8Mi"),
    ],
)
async def test_a_limit_range_refuses(api: ApiServer, memory: str, why: str) -> None:
    await limits(api)
    error = await refused(api, pod("x", container(resources={"limits": {"memory": memory}})))
    assert error.message == f'pods "x" is forbidden: {why}'


async def test_a_limit_range_fills_in(api: ApiServer) -> None:
    await limits(api)
    made = await api.client.create("pods", pod("dflt"), "default")
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"memory": "32Mi"}, "limits": {"memory": "64Mi"}}
    text = "LimitRanger plugin set: memory request for container c; memory limit for container c"
    assert made["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": text}


async def budget(api: ApiServer, allowed: int) -> None:
    """A disruption budget as its controller would leave it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    made = await api.client.create(
        "poddisruptionbudgets.policy", {"metadata": {"name": "pdb"}, "spec": spec}, "default"
    )
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    await api.client.patch("poddisruptionbudgets.policy", "pdb", {"status": status}, "default", subresource="status")


async def evict(http: Http, name: str) -> tuple[int, Object]:
    """The answer to an eviction."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    answer = await http("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body)
    return answer.status, answer.json


async def test_a_budget_is_spent_by_evictions(api: ApiServer, http: Http) -> None:
    for name in ("a", "b"):
        body = pod(name)
        body["metadata"]["labels"] = {"app": "x"}
        await api.client.create("pods", body, "default")
        await run_pod(api, name)
    await budget(api, 1)
    code, status = await evict(http, "a")
    assert (code, status["status"]) == (201, "Success")
    evicted = await api.client.get("pods", "a", "default")
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    assert "deletionTimestamp" in evicted["metadata"]
    code, status = await evict(http, "b")
    assert (code, status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in (await api.client.get("pods", "b", "default"))["metadata"]


async def test_without_a_budget_an_eviction_is_a_delete(api: ApiServer, http: Http) -> None:
    await api.client.create("pods", pod("a"), "default")
    assert (await evict(http, "a"))[0] == 201
    assert (await evict(http, "nope"))[0] == 404


def _no_gpus(resource: str, operation: Literal["CREATE", "UPDATE", "DELETE"], obj: Object) -> Object:
    """A hook as a fault would use it: caps memory, refuses a name."""
    if resource != "pods" or operation != "CREATE":
        return obj
    if obj["metadata"]["name"] == "unwanted":
        raise ApiError(403, "Forbidden", "no such pods here")
    changed = copy.deepcopy(obj)
    changed["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    return changed


async def test_hooks_change_and_refuse(registry: KubeletRegistry) -> None:
    api = ApiServer(registry=registry, hooks=[_no_gpus])
    made = await api.client.create("pods", pod("a"), "default")
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"memory": "64Mi"}
    assert (await refused(api, pod("unwanted"))).message == "no such pods here"
    await api.close()


_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
_SECURE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_VIOLATIONS = (
    'PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set '
    'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set '
    'securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


async def test_pod_security_refuses_pods_and_warns_about_jobs(api: ApiServer, http: Http) -> None:
    await api.client.create("namespaces", {"metadata": {"name": "tight", "labels": _RESTRICTED}})
    answer = await http("POST", "/api/v1/namespaces/tight/pods", pod("bare"))
    assert answer.json["message"] == f'pods "bare" is forbidden: violates {_VIOLATIONS}'
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    accepted = await http("POST", "/apis/batch/v1/namespaces/tight/jobs", job)
    assert accepted.status == 201
    assert accepted.headers["Warning"].replace("\\", "") == f'299 - "would violate {_VIOLATIONS}"'
    secure = await http("POST", "/api/v1/namespaces/tight/pods", pod("ok", container(securityContext=_SECURE)))
    assert secure.status == 201


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"hostNetwork": True}, "host namespaces (hostNetwork=true)"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, 'hostPath volumes (volume "v")'),
    ],
)
async def test_pod_security_baseline(api: ApiServer, spec: Object, why: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    await api.client.patch("namespaces", "default", {"metadata": {"labels": labels}})
    error = await refused(api, pod("x", **spec))
    assert error.message == f'pods "x" is forbidden: violates PodSecurity "baseline:latest": {why}'


async def test_what_a_pod_refers_to_must_exist(api: ApiServer) -> None:
    error = await refused(api, pod("x", serviceAccountName="nosa"))
    why = 'error looking up service account default/nosa: serviceaccount "nosa" not found'
    assert error.message == f'pods "x" is forbidden: {why}'
    error = await refused(api, pod("x", priorityClassName="high"))
    assert error.message == 'pods "x" is forbidden: no PriorityClass with name high was found'
    error = await refused(api, pod("x", runtimeClassName="nvidia"))
    assert error.message == 'pods "x" is forbidden: pod rejected: RuntimeClass "nvidia" not found'


async def test_a_priority_class_gives_its_number(api: ApiServer) -> None:
    await api.client.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 7})
    made = await api.client.create("pods", pod("x", priorityClassName="high"), "default")
    assert made["spec"]["priority"] == 7


async def test_a_claim_gets_the_default_storage_class(api: ApiServer) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "x"}
    await api.client.create("storageclasses.storage.k8s.io", storage)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = await api.client.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}, "default")
    assert made["spec"]["storageClassName"] == "fast"


async def test_the_standing_namespaces_may_not_be_deleted(http: Http) -> None:
    answer = await http("DELETE", "/api/v1/namespaces/default")
    assert answer.json["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'


async def test_no_finalizer_comes_after_the_delete(api: ApiServer) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await api.client.create("configmaps", body, "default")
    await api.client.delete("configmaps", "held", "default")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    with pytest.raises(ApiError) as error:
        await api.client.patch("configmaps", "held", more, "default")
    assert error.value.code == 422
    assert 'found new finalizers []string{"example.com/more"}' in error.value.message
