"""Ports of pods: probes ask them, clients reach them through the API server, and pods reach the API."""

from __future__ import annotations

import json

import pytest

from tests.simcluster.node.cluster_process import Json, Namespace, RefusedError, wait_for
from tests.simcluster.node.test_pods import python, shell


def is_ready(pod: Json) -> bool:
    found: bool = pod["status"]["containerStatuses"][0]["ready"]
    return found


def test_readiness_follows_an_exec_probe(ns: Namespace) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    ns.pod("p", shell("sleep 1; touch /tmp/ready; sleep 100", readinessProbe=probe))
    pod = ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    assert not is_ready(pod)
    assert is_ready(ns.until("p", is_ready, "is ready"))
    assert any(reason == "Unhealthy" and text.startswith("Readiness probe failed") for reason, text in ns.reasons("p"))


def test_a_lost_liveness_restarts_the_container(ns: Namespace) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    ns.pod("p", shell("sleep 100", livenessProbe=probe), restartPolicy="Always")
    pod = ns.until("p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] > 0, "restarts")
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


def test_a_container_killed_for_its_liveness_ends_gracefully_and_starts_at_once(ns: Namespace) -> None:
    probe = {"exec": {"command": ["sh", "-c", "echo lost; false"]}, "periodSeconds": 1, "failureThreshold": 1}
    code = "trap 'exit 0' TERM; while true; do sleep 0.05; done"
    ns.pod("p", shell(code, livenessProbe=probe), restartPolicy="OnFailure")
    pod = ns.until("p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] > 0, "restarts")
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "Completed"
    assert ("Unhealthy", "Liveness probe failed: lost\n") in ns.reasons("p")


def test_a_pods_server_is_reached_through_the_proxy(ns: Namespace) -> None:
    probe = {"httpGet": {"port": 8000, "path": "/"}, "periodSeconds": 1}
    ns.pod("p", shell("cd /tmp; echo found > x; exec python3 -m http.server 8000", readinessProbe=probe))
    ns.until("p", is_ready, "is ready")
    assert ns.api.raw("GET", ns.path("pods", "p:8000") + "/proxy/x") == b"found\n"
    with pytest.raises((RefusedError, json.JSONDecodeError)):
        ns.api.raw("GET", ns.path("pods", "p:8001") + "/proxy/x")


def test_a_pod_reaches_the_api_but_not_without_a_token(ns: Namespace) -> None:
    ask = (
        "import json, os, ssl, urllib.error, urllib.request\n"
        "context = ssl._create_unverified_context()\n"
        "host, port = os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT']\n"
        "def get(path):\n"
        "    try:\n"
        "        return urllib.request.urlopen(f'https://{host}:{port}{path}', context=context, timeout=5).status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        return error.code\n"
        "print(json.dumps([get('/version'), get('/api/v1/secrets')]))\n"
    )
    ns.pod("p", python(ask))
    ns.ended("p")
    version, secrets = json.loads(ns.log("p"))
    assert version in (200, 401)
    assert secrets in (401, 403)


def test_what_a_pod_was_asked_to_do_is_over_when_it_is_deleted_early(ns: Namespace) -> None:
    """Deleted while it starts: nothing of it may run afterwards."""
    for number in range(4):
        ns.pod(f"p{number}", shell("sleep 7654"))
        ns.delete(f"p{number}", grace_s=0)
    wait_for(lambda: not ns.api.call("GET", ns.path("pods"))["items"], "all gone")
