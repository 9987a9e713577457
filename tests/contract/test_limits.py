"""Quotas, limit ranges and pod security: refused at creation, told by events only."""

from __future__ import annotations

import pytest

from tests.contract.cluster import STAYS, Build, Cluster, Namespace
from tests.contract.http import Json
from tests.contract.waiting import until


def _quota(**hard: str) -> Json:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


def _enforced(ns: Namespace, quota: Json) -> None:
    ns.create("resourcequotas", quota)
    ns.wait("resourcequotas", "q", lambda found: bool(found.get("status", {}).get("hard")), 30)


def test_a_pod_beyond_the_quota_is_403(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(pods="1"))
    ns.create("pods", build.pod("one", STAYS))
    answer = ns.post("pods", build.pod("two", STAYS))
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    text = 'pods "two" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    assert answer.json["message"] == text
    assert answer.json["details"] == {"name": "two", "kind": "pods"}


def test_a_quota_tells_what_is_used(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(pods="2"))
    ns.create("pods", build.pod("one", STAYS))
    ns.wait("resourcequotas", "q", lambda found: found["status"]["used"] == {"pods": "1"}, 30)


def test_finished_pods_do_not_count(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(pods="1"))
    ns.create("pods", build.pod("one", "true"))
    ns.finished("one")
    until(lambda: ns.post("pods", build.pod("two", "true")).code == 201, ns.cluster.s(30), "room for the next")


def test_a_quota_of_gpus_is_counted_by_requests(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(**{"requests.nvidia.com/gpu": "3"}))
    limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    answer = ns.post("pods", build.pod("p", "", containers=[build.container("c", "true", **limits)]))
    assert answer.code == 403
    assert "requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=0, limited" in answer.json["message"]


def test_a_quota_of_resources_makes_them_mandatory(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(**{"requests.cpu": "1", "limits.memory": "1Gi"}))
    answer = ns.post("pods", build.pod("p", "true"))
    assert answer.code == 403
    assert "failed quota: q: must specify limits.memory for: c; requests.cpu for: c" in answer.json["message"]


def test_a_job_over_quota_goes_on_as_places_are_freed(ns: Namespace, build: Build) -> None:
    _enforced(ns, _quota(pods="2"))
    ns.create("jobs", build.job("j", "sleep 0.3", 4))
    until(lambda: ns.events("j", "FailedCreate"), ns.cluster.s(30), "an event of the refusal")
    assert ns.job_done("j", 240)["status"]["succeeded"] == 4


RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "l"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "max": {"memory": "128Mi"},
                "min": {"memory": "16Mi"},
                "default": {"memory": "64Mi"},
                "defaultRequest": {"memory": "32Mi"},
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        ("1Gi", "maximum memory usage per Container is 128Mi, but limit is 1Gi"),
        ("8Mi", "minimum memory usage per Container is 16Mi, but request is 8Mi"),
    ],
)
def test_a_limit_range_refuses(ns: Namespace, build: Build, memory: str, text: str) -> None:
    ns.create("limitranges", RANGE)
    resources = {"limits": {"memory": memory}}
    pod = build.pod("p", "", containers=[build.container("c", "true", resources=resources)])
    answer = until(lambda: _refusal(ns, pod), ns.cluster.s(10), "the limit range is enforced")
    assert answer["reason"] == "Forbidden"
    assert text in answer["message"]


def _refusal(ns: Namespace, pod: Json) -> Json | None:
    answer = ns.post("pods", pod, query={"dryRun": "All"})
    return answer.json if answer.code == 403 else None


def test_a_limit_range_fills_in_defaults(ns: Namespace, build: Build) -> None:
    ns.create("limitranges", RANGE)
    pod = until(lambda: _defaulted(ns, build), ns.cluster.s(10), "defaults are set")
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}}
    assert "kubernetes.io/limit-ranger" in pod["metadata"]["annotations"]


def _defaulted(ns: Namespace, build: Build) -> Json | None:
    found = ns.post("pods", build.pod("p", "true"), query={"dryRun": "All"}).json
    return found if found["spec"]["containers"][0]["resources"] else None


def test_pod_security_refuses_pods_and_lets_the_job_be(cluster: Cluster, build: Build) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    ns = cluster.namespace(labels=labels)
    try:
        answer = ns.post("pods", build.pod("p", "true"))
        assert answer.code == 403
        assert 'violates PodSecurity "restricted:latest"' in answer.json["message"]
        job = ns.post("jobs", build.job("j", "true", 1))
        assert job.code == 201
        assert "would violate PodSecurity" in job.headers["Warning"]
        until(lambda: ns.events("j", "FailedCreate"), ns.cluster.s(30), "an event of the refusal")
        assert ns.job_pods("j") == []
    finally:
        ns.drop()
