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
