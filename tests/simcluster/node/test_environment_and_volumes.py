"""What a container finds: variables, files, names, and what it must not find."""

from __future__ import annotations

import base64
import json

from tests.simcluster.node.cluster_process import Namespace, terminated, wait_for
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
    ns.pod(
        "p",
        python(probe, volumeMounts=[{"name": "h", "mountPath": "/h"}]),
        volumes=[{"name": "h", "hostPath": {"path": "/../../.."}}],
    )
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
