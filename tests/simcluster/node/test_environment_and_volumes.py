"""What a container finds: variables, files, names, and what it must not find."""

from __future__ import annotations

import base64
import json

import pytest

from tests.simcluster.node.cluster_process import Namespace, RefusedError, terminated, wait_for
from tests.simcluster.node.test_pods import python, shell


def test_variables_from_every_source(ns: Namespace) -> None:
    ns.create("configmaps", {"metadata": {"name": "cm"}, "data": {"A": "from-cm"}})
    ns.create("secrets", {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"hidden").decode()}})
    environment = [
        {"name": "PLAIN", "value": "v"},
        {"name": "TWICE", "value": "$(PLAIN)-$(PLAIN) $(NOPE) $$(PLAIN)"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "ABSENT", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "zz", "optional": True}}},
    ]
    ns.pod(
        "p",
        python(
            "import json, os; print(json.dumps(dict(os.environ)))",
            env=environment,
            envFrom=[{"configMapRef": {"name": "cm"}, "prefix": "CM_"}],
            resources={"limits": {"memory": "512Mi"}},
        ),
    )
    pod = ns.ended("p")
    found = json.loads(ns.log("p"))
    assert found["PLAIN"] == "v"
    assert found["TWICE"] == "v-v $(NOPE) $(PLAIN)"
    assert found["SECRET"] == "hidden"
    assert found["NODE"] == pod["spec"]["nodeName"]
    assert found["IP"] == pod["status"]["podIP"]
    assert found["LIMIT"] == "512"
    assert found["CM_A"] == "from-cm"
    assert found["HOSTNAME"] == "p"
    assert "ABSENT" not in found
    assert not [name for name in found if name.startswith(("SIMCLUSTER_INSIDE", "PYTEST"))]


def test_volumes_of_every_kind(ns: Namespace) -> None:
    ns.create("configmaps", {"metadata": {"name": "cm"}, "data": {"a": "1", "b": "2"}})
    ns.create("secrets", {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"3").decode()}})
    down = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    volumes = [
        {"name": "cm", "configMap": {"name": "cm", "items": [{"key": "a", "path": "deep/a", "mode": 0o400}]}},
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "d", "downwardAPI": {"items": down}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "cm"}}, {"secret": {"name": "s"}}]}},
        {"name": "e", "emptyDir": {"medium": "Memory"}},
        {"name": "h", "hostPath": {"path": "/data/x", "type": "DirectoryOrCreate"}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes]
    mounts.append({"name": "cm", "mountPath": "/one", "subPath": "deep"})
    mounts[1]["readOnly"] = True  # type: ignore[assignment]
    check = (
        "set -e; cat /v/cm/deep/a /v/s/k /v/p/a /v/p/b /v/p/k; echo; cat /v/d/labels; echo; "
        "touch /v/e/x /v/h/x; ls /one; touch /v/s/no 2>/dev/null && exit 9; exit 0"
    )
    pod = {
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "simcluster.local/python:3", **shell(check, volumeMounts=mounts)}],
            "volumes": volumes,
        },
    }
    ns.create("pods", pod)
    assert terminated(ns.ended("p")).get("exitCode") == 0, ns.log("p")
    assert ns.log("p") == '13123\napp="x"\na\n'


def test_a_container_cannot_reach_the_host(ns: Namespace) -> None:
    """Writes stay in the container's own layer, hostPath stays in the node's directory, and /tmp is its own."""
    probe = (
        "import json, os\n"
        "open('/usr/written-by-a-pod', 'w').close()\n"
        "print(json.dumps([os.listdir('/tmp'), os.listdir('/h'), [p for p in os.listdir('/proc') if p.isdigit()]]))\n"
    )
    mount = {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}

    def on_host(path: str) -> dict[str, object]:
        return {"volumes": [{"name": "h", "hostPath": {"path": path}}], "nodeName": "gpu-01"}

    with pytest.raises(RefusedError, match="must not contain"):
        ns.pod("up", python(probe, **mount), **on_host("/../../.."))
    ns.pod("link", shell("ln -s ../../../../.. /h/up", **mount), **on_host("/x"))
    assert ns.ended("link")["status"]["phase"] == "Succeeded"
    ns.pod("p", python(probe, **mount), **on_host("/x/up"))
    wait_for(lambda: "FailedMount" in dict(ns.reasons("p")), "a hostPath outside the node is refused")
    ns.pod("q", python(probe.replace("/h", "/mnt")))
    ns.ended("q")
    own_tmp, _, processes = json.loads(ns.log("q"))
    assert own_tmp == []
    assert processes == ["1"]
    ns.pod("r", shell("test ! -e /usr/written-by-a-pod"))
    assert ns.ended("r")["status"]["phase"] == "Succeeded"


def test_pods_of_a_headless_service_find_each_other_by_name(ns: Namespace) -> None:
    ns.create(
        "services",
        {
            "metadata": {"name": "svc"},
            "spec": {"clusterIP": "None", "selector": {"app": "x"}, "ports": [{"port": 80}]},
        },
    )
    for number in (0, 1):
        body = {
            "metadata": {"name": f"p{number}", "labels": {"app": "x"}},
            "spec": {
                "hostname": f"j-{number}",
                "subdomain": "svc",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "simcluster.local/python:3", **python(_MEET)}],
                "restartPolicy": "Never",
                "tolerations": [{"operator": "Exists"}],
            },
        }
        ns.create("pods", body)
    assert ns.ended("p0")["status"]["phase"] == "Succeeded", ns.log("p0")
    assert ns.ended("p1")["status"]["phase"] == "Succeeded", ns.log("p1")


_MEET = """
import socket, threading, time
server = socket.create_server(("", 5000))
other = "j-1" if socket.gethostname() == "j-0" else "j-0"
deadline = time.time() + 15
while True:
    try:
        peer = socket.create_connection((other + ".svc", 5000), 1)
        break
    except OSError:
        if time.time() > deadline:
            raise
        time.sleep(0.05)
connection, _ = server.accept()
peer.sendall(b"x")
assert connection.recv(1) == b"x"
peer.close()
"""


def test_a_pod_speaks_to_the_api_by_its_own_account(ns: Namespace) -> None:
    """The token, the CA and the namespace lie where every client library looks for them; names come from DNS."""
    code = (
        "import json, pathlib, ssl, urllib.request\n"
        "home = pathlib.Path('/var/run/secrets/kubernetes.io/serviceaccount')\n"
        "url = 'https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews'\n"
        "body = {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}\n"
        "headers = {'Authorization': 'Bearer ' + (home / 'token').read_text(), 'Content-Type': 'application/json'}\n"
        "request = urllib.request.Request(url, json.dumps(body).encode(), headers)\n"
        "context = ssl.create_default_context(cafile=str(home / 'ca.crt'))\n"
        "with urllib.request.urlopen(request, context=context, timeout=5) as answer:\n"
        "    told = json.load(answer)['status']['userInfo']['username']\n"
        "print(told, (home / 'namespace').read_text())\n"
    )
    ns.pod("p", python(code))
    assert ns.ended("p")["status"]["phase"] == "Succeeded", ns.log("p")
    assert ns.log("p") == f"system:serviceaccount:{ns.name}:default {ns.name}\n"


def test_a_pod_that_wants_no_account_gets_no_volume(ns: Namespace) -> None:
    pod = ns.pod("p", shell("test ! -e /var/run/secrets/kubernetes.io"), automountServiceAccountToken=False)
    assert "volumes" not in pod["spec"]
    assert ns.ended("p")["status"]["phase"] == "Succeeded"


def test_a_name_that_nobody_has_is_refused_at_once(ns: Namespace) -> None:
    code = (
        "import socket, time\n"
        "start = time.monotonic()\n"
        "try:\n"
        "    socket.getaddrinfo('nobody.svc', 80)\n"
        "except socket.gaierror as error:\n"
        "    print(error.errno == socket.EAI_NONAME, time.monotonic() - start < 2)\n"
    )
    ns.pod("p", python(code))
    ns.ended("p")
    assert ns.log("p") == "True True\n"
