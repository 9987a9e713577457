"""Volume kinds: what a container finds under a mount, and who may see it."""

from __future__ import annotations

import base64
import json

import pytest

from tests.contract.cluster import CORE, STAYS, Build, Cluster, Namespace, config_map, phase
from tests.contract.http import Json
from tests.contract.waiting import until


def _pod(build: Build, name: str, script: str, volume: Json, **spec: Json) -> Json:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", **volume}]
    return build.pod(name, "", containers=[build.container("c", script, **mount)], volumes=volumes, **spec)


def _says(ns: Namespace, pod: Json) -> str:
    ns.create("pods", pod)
    name = pod["metadata"]["name"]
    found = ns.finished(name)
    assert phase(found) == "Succeeded", ns.log(name).text
    return ns.log(name).text


def test_an_empty_dir_is_shared_by_containers_and_empty_at_first(ns: Namespace, build: Build) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    writes = build.container("writes", "ls /v | wc -l; echo here > /v/f", **mount)
    reads = build.container("reads", "while [ ! -s /v/f ]; do sleep 0.1; done; cat /v/f", **mount)
    ns.create("pods", build.pod("p", "", containers=[writes, reads], volumes=[{"name": "v", "emptyDir": {}}]))
    ns.finished("p")
    assert ns.log("p", container="writes").text.strip() == "0"
    assert ns.log("p", container="reads").text == "here\n"


def test_a_config_map_is_files(ns: Namespace, build: Build) -> None:
    ns.create("configmaps", config_map("cm", {"a": "1\n", "b": "2\n"}))
    assert _says(ns, _pod(build, "p", "cat /v/a /v/b; ls /v", {"configMap": {"name": "cm"}})) == "1\n2\na\nb\n"


def test_items_choose_and_rename_keys_and_modes(ns: Namespace, build: Build) -> None:
    ns.create("configmaps", config_map("cm", {"a": "1\n", "b": "2\n"}))
    items = [{"key": "a", "path": "d/renamed", "mode": 0o400}]
    volume = {"configMap": {"name": "cm", "items": items}}
    assert _says(ns, _pod(build, "p", "cat /v/d/renamed; ls /v; stat -L -c %a /v/d/renamed", volume)) == "1\nd\n400\n"


def test_a_config_map_may_be_optional(ns: Namespace, build: Build) -> None:
    volume = {"configMap": {"name": "absent", "optional": True}}
    assert _says(ns, _pod(build, "p", "ls /v | wc -l", volume)).strip() == "0"


def test_a_secret_is_decoded_bytes(ns: Namespace, build: Build) -> None:
    data = {"k": base64.b64encode(b"\x00secret\xff").decode()}
    ns.create("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
    script = "python3 -c \"print(open('/v/k', 'rb').read() == b'\\x00secret\\xff')\""
    assert _says(ns, _pod(build, "p", script, {"secret": {"secretName": "s"}})) == "True\n"


def test_string_data_is_stored_encoded(ns: Namespace) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    stored = ns.create("secrets", body)
    assert stored["data"] == {"k": base64.b64encode(b"v").decode()}
    assert "stringData" not in stored
    assert stored["type"] == "Opaque"


def test_the_downward_api_tells_the_pod_about_itself(ns: Namespace, build: Build) -> None:
    items = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
    ]
    pod = _pod(build, "p", "cat /v/name; echo; cat /v/labels", {"downwardAPI": {"items": items}})
    pod["metadata"]["labels"] = {"l": "x"}
    assert _says(ns, pod).strip() == 'p\nl="x"'


def test_the_environment_tells_name_namespace_node_and_addresses(ns: Namespace, build: Build) -> None:
    fields = {
        "NAME": "metadata.name",
        "NAMESPACE": "metadata.namespace",
        "NODE": "spec.nodeName",
        "POD_IP": "status.podIP",
        "UID_": "metadata.uid",
    }
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    script = "echo $NAME $NAMESPACE $NODE $POD_IP $UID_"
    ns.create("pods", build.pod("p", "", containers=[build.container("c", script, env=env)]))
    pod = ns.finished("p")
    wanted = ["p", ns.name, pod["spec"]["nodeName"], pod["status"]["podIP"], pod["metadata"]["uid"]]
    assert ns.log("p").text.split() == wanted


def test_resource_fields_reach_the_environment(ns: Namespace, build: Build) -> None:
    env = [{"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}}]
    limits = {"limits": {"memory": "128Mi"}}
    ns.create("pods", build.pod("p", "", containers=[build.container("c", "echo $M", env=env, resources=limits)]))
    ns.finished("p")
    assert ns.log("p").text == "128\n"


def test_projected_sources_share_one_directory(ns: Namespace, build: Build) -> None:
    ns.create("configmaps", config_map("cm", {"a": "1\n"}))
    ns.create("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"b": "2\n"}})
    sources = [
        {"configMap": {"name": "cm"}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "c", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    assert _says(ns, _pod(build, "p", "cat /v/a /v/b /v/c", {"projected": {"sources": sources}})) == "1\n2\np"


def test_a_projected_token_speaks_for_the_service_account(ns: Namespace, build: Build) -> None:
    sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]
    token = _says(ns, _pod(build, "p", "cat /v/token", {"projected": {"sources": sources}})).strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = ns.http.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).json["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{ns.name}:default"


def test_a_read_only_mount_refuses_writes(ns: Namespace, build: Build) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}]}
    script = "touch /v/f 2>/dev/null && echo written || echo refused"
    ns.create(
        "pods",
        build.pod("p", "", containers=[build.container("c", script, **mount)], volumes=[{"name": "v", "emptyDir": {}}]),
    )
    ns.finished("p")
    assert ns.log("p").text == "refused\n"


def test_a_sub_path_mounts_one_file(ns: Namespace, build: Build) -> None:
    ns.create("configmaps", config_map("cm", {"a": "1\n"}))
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/etc/one.conf", "subPath": "a"}]}
    volumes = [{"name": "v", "configMap": {"name": "cm"}}]
    ns.create(
        "pods", build.pod("p", "", containers=[build.container("c", "cat /etc/one.conf", **mount)], volumes=volumes)
    )
    ns.finished("p")
    assert ns.log("p").text == "1\n"


def test_a_host_path_is_the_nodes_and_outlives_the_pod(cluster: Cluster, ns: Namespace, build: Build) -> None:
    path = f"/tmp/{ns.name}"
    volume = {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    node = {"nodeName": cluster.workers()[0]}
    assert _says(ns, _pod(build, "one", "echo kept > /v/f", volume, **node)) == ""
    assert _says(ns, _pod(build, "two", "cat /v/f; rm -r /v/f", volume, **node)) == "kept\n"


def test_a_host_path_of_another_node_is_another(cluster: Cluster, ns: Namespace, build: Build) -> None:
    workers = cluster.workers()
    if len(workers) < 2:
        pytest.skip("only one node")
    volume = {"hostPath": {"path": f"/tmp/{ns.name}", "type": "DirectoryOrCreate"}}
    assert _says(ns, _pod(build, "one", "echo kept > /v/f", volume, nodeName=workers[0])) == ""
    assert _says(ns, _pod(build, "two", "ls /v | wc -l", volume, nodeName=workers[1])).strip() == "0"
    _says(ns, _pod(build, "three", "rm /v/f", volume, nodeName=workers[0]))


def test_a_claim_is_bound_and_keeps_its_files(cluster: Cluster, ns: Namespace, build: Build) -> None:
    classes = cluster.http.request("GET", "/apis/storage.k8s.io/v1/storageclasses").json["items"]
    default = "storageclass.kubernetes.io/is-default-class"
    if not any((found["metadata"].get("annotations") or {}).get(default) == "true" for found in classes):
        pytest.skip("no default StorageClass")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
    }
    ns.create("persistentvolumeclaims", claim)
    volume = {"persistentVolumeClaim": {"claimName": "pvc"}}
    assert _says(ns, _pod(build, "one", "echo kept > /v/f", volume)) == ""
    assert ns.read("persistentvolumeclaims", "pvc")["status"]["phase"] == "Bound"
    assert _says(ns, _pod(build, "two", "cat /v/f", volume)) == "kept\n"


def test_a_changed_config_map_reaches_a_running_pod(cluster: Cluster, ns: Namespace, build: Build) -> None:
    if not cluster.simulated:
        pytest.skip("takes up to two minutes on a real kubelet")
    ns.create("configmaps", config_map("cm", {"a": "old"}))
    ns.create("pods", _pod(build, "p", f"{STAYS}", {"configMap": {"name": "cm"}}))
    ns.running("p")
    ns.patch("configmaps", "cm", {"data": {"a": "new"}})
    assert (
        json.loads(cluster.http.request("GET", f"{CORE}/namespaces/{ns.name}/configmaps/cm").body)["data"]["a"] == "new"
    )
    if cluster.kubectl_binary is None:
        pytest.skip("no kubectl on this machine")
    until(
        lambda: cluster.kubectl("-n", ns.name, "exec", "p", "--", "cat", "/v/a").stdout == "new",
        cluster.s(120),
        "the new value in the container",
    )
