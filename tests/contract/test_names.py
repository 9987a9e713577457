"""Names of peers: an indexed pod finds the others by a headless Service."""

from __future__ import annotations

from tests.contract.cluster import STAYS, Build, Namespace, verdict
from tests.contract.http import Json
from tests.contract.waiting import until

ASK = """
import os, socket, sys, time
me, end = os.environ["JOB_COMPLETION_INDEX"], time.time() + 60
for peer in sys.argv[1:]:
    while True:
        try:
            print(peer, socket.getaddrinfo(peer, 80, socket.AF_INET)[0][4][0], flush=True)
            break
        except OSError:
            if time.time() > end:
                sys.exit(f"{peer} not resolved")
            time.sleep(0.1)
time.sleep(float(os.environ["LINGER_S"]))
"""


def _service(name: str, selector: dict[str, str], **spec: Json) -> Json:
    body = {"clusterIP": "None", "selector": selector, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def _job(build: Build, ns: Namespace, names: list[str], **container: Json) -> Json:
    # Each stays a while after it knows all: a peer that asks later must still find it.
    # RES_OPTIONS keeps the resolver from waiting long for a name that is not there yet.
    env = [
        {"name": "LINGER_S", "value": str(4 if ns.cluster.simulated else 15)},
        {"name": "RES_OPTIONS", "value": "timeout:1 attempts:1"},
    ]
    spec = {
        "subdomain": "hl",
        "containers": [build.container("c", ["python3", "-c", ASK, *names], env=env, **container)],
    }
    return build.job("j", "", 3, labels={"svc": "hl"}, spec=spec)


def test_indexed_pods_resolve_each_other(ns: Namespace, build: Build) -> None:
    ns.create("services", _service("hl", {"svc": "hl"}))
    peers = [f"j-{index}.hl" for index in range(3)]
    full = f"j-0.hl.{ns.name}.svc.cluster.local"
    ns.create("jobs", _job(build, ns, [*peers, full]))
    assert verdict(ns.job_done("j")) == "Complete"
    pods = ns.job_pods("j")
    addresses = {f"j-{index}.hl": pod["status"]["podIP"] for index, pod in enumerate(pods)}
    for pod in pods:
        told = dict(line.split() for line in ns.log(pod["metadata"]["name"]).text.splitlines())
        assert {name: told[name] for name in peers} == addresses
        assert told[full] == addresses["j-0.hl"]


def test_unready_pods_resolve_where_the_service_says_so(ns: Namespace, build: Build) -> None:
    ns.create("services", _service("hl", {"svc": "hl"}, publishNotReadyAddresses=True))
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    ns.create("jobs", _job(build, ns, [f"j-{index}.hl" for index in range(3)], readinessProbe=probe))
    assert verdict(ns.job_done("j")) == "Complete"


def test_endpoints_name_ready_pods_by_hostname(ns: Namespace, build: Build) -> None:
    ns.create("services", _service("hl", {"svc": "hl"}))
    ns.create("jobs", build.job("j", STAYS, 2, labels={"svc": "hl"}, spec={"subdomain": "hl"}))

    def ready() -> dict[str, str]:
        return {
            endpoint["hostname"]: endpoint["addresses"][0]
            for found in ns.items("endpointslices", labelSelector="kubernetes.io/service-name=hl")
            for endpoint in found.get("endpoints") or []
            if endpoint["conditions"]["ready"]
        }

    until(lambda: len(ready()) == 2, ns.cluster.s(60), "two ready endpoints")
    assert ready() == {pod["spec"]["hostname"]: pod["status"]["podIP"] for pod in ns.job_pods("j")}


def test_a_name_that_is_nobodys_is_refused_soon(ns: Namespace, build: Build) -> None:
    script = """
import socket, time
start = time.time()
try:
    socket.getaddrinfo("nobody.hl", 80)
except OSError as error:
    print(error.errno in (-2, -3), time.time() - start < 20)
"""
    ns.create("pods", build.pod("p", ["python3", "-c", script]))
    ns.finished("p")
    assert ns.log("p").text == "True True\n"
