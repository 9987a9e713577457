"""A real kubectl: the commands that people and runbooks use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, condition, config_map
from tests.contract.http import Json
from tests.contract.waiting import until


class Kubectl:
    """kubectl in one namespace."""

    def __init__(self, cluster: Cluster, ns: Namespace) -> None:
        self.cluster = cluster
        self.ns = ns

    def __call__(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Standard output of a command that must succeed."""
        return self.run(*words, stdin=stdin, check=check).stdout

    def run(self, *words: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """The finished command."""
        return self.cluster.kubectl("-n", self.ns.name, *words, stdin=stdin, check=check)


@pytest.fixture(scope="module")
def k(cluster: Cluster, build: Build) -> Iterator[Kubectl]:
    """kubectl in a namespace with a running pod `p` and a finished one `done`."""
    if cluster.kubectl_binary is None:
        pytest.skip("no kubectl on this machine")
    ns = cluster.namespace()
    ns.create("pods", build.pod("p", f"echo first; {STAYS}", labels={"app": "x"}))
    ns.create("pods", build.pod("done", "echo over; printf told > /dev/termination-log"))
    ns.running("p")
    ns.finished("done")
    yield Kubectl(cluster, ns)
    ns.drop()


def test_get_shows_a_table(k: Kubectl) -> None:
    header, *rows = k("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert {tuple(row.split()[:3]) for row in rows} >= {("p", "1/1", "Running"), ("done", "0/1", "Completed")}


def test_get_wide_shows_addresses_and_nodes(k: Kubectl) -> None:
    pod = k.ns.read("pods", "p")
    row = next(line for line in k("get", "pods", "-o", "wide").splitlines() if line.startswith("p "))
    assert pod["status"]["podIP"] in row
    assert pod["spec"]["nodeName"] in row
    assert "INTERNAL-IP" in k("get", "nodes", "-o", "wide")


def test_get_yaml_json_name_and_jsonpath(k: Kubectl) -> None:
    assert yaml.safe_load(k("get", "pod", "p", "-o", "yaml"))["spec"]["containers"][0]["name"] == "c"
    assert json.loads(k("get", "pod", "p", "-o", "json"))["status"]["phase"] == "Running"
    assert k("get", "pods", "-l", "app=x", "-o", "name") == "pod/p\n"
    assert k("get", "pod", "p", "-o", "jsonpath={.status.phase} {.spec.containers[*].name}") == "Running c"
    columns = k("get", "pod", "p", "-o", "custom-columns=N:.metadata.name,P:.status.phase", "--no-headers")
    assert columns.split() == ["p", "Running"]


def test_get_by_selectors(k: Kubectl) -> None:
    assert k("get", "pods", "--field-selector", "status.phase=Succeeded", "-o", "name") == "pod/done\n"
    assert k("get", "pods", "-l", "app!=x", "-o", "name") == "pod/done\n"
    assert "No resources found" in k.run("get", "pods", "-l", "app=none").stderr


def test_get_watches(k: Kubectl) -> None:
    assert k.cluster.kubectl_binary is not None
    words = [k.cluster.kubectl_binary, "--kubeconfig", str(k.cluster.kubeconfig), "-n", k.ns.name]
    watch = subprocess.Popen(
        [*words, "get", "configmaps", "-w", "-o", "name"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/kube-root-ca.crt\n"
        k.ns.create("configmaps", config_map("zz-new"))
        until(lambda: watch.stdout is not None and watch.stdout.readline() == "configmap/zz-new\n", 30, "the new one")
    finally:
        watch.terminate()
        watch.communicate(timeout=10)


def test_describe_tells_containers_conditions_and_events(k: Kubectl) -> None:
    text = k("describe", "pod", "done")
    for part in ("Exit Code:    0", "Message:      told", "PodScheduled", "Successfully assigned", "Started"):
        assert part in text
    assert "Allocatable:" in k("describe", "node", k.ns.read("pods", "p")["spec"]["nodeName"])


def test_events_are_listed(k: Kubectl) -> None:
    assert "Scheduled" in k("events", "--for", "pod/done")
    assert "Scheduled" in k("get", "events")


def test_logs_whole_and_followed(k: Kubectl) -> None:
    assert k("logs", "done") == "over\n"
    assert k("logs", "-f", "done") == "over\n"
    assert k("logs", "p", "--tail", "1") == "first\n"


def test_create_apply_and_delete(k: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "cm.yaml"
    file.write_text(yaml.safe_dump(config_map("applied", {"k": "1"})), encoding="utf-8")
    assert k("apply", "-f", str(file)) == "configmap/applied created\n"
    assert k("apply", "-f", str(file)) == "configmap/applied unchanged\n"
    file.write_text(yaml.safe_dump(config_map("applied", {"l": "2"})), encoding="utf-8")
    assert k("apply", "-f", str(file)) == "configmap/applied configured\n"
    assert k.ns.read("configmaps", "applied")["data"] == {"l": "2"}
    assert "applied" in k("delete", "-f", str(file))
    assert k.ns.get("configmaps", "applied").code == 404


def test_apply_on_the_server(k: Kubectl) -> None:
    def apply(data: dict[str, str], *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        body = yaml.safe_dump(config_map("served", data))
        return k.run("apply", "--server-side", *words, "-f", "-", stdin=body, check=check)

    assert apply({"k": "1"}).stdout == "configmap/served serverside-applied\n"
    refused = apply({"k": "2"}, "--field-manager", "other", check=False)
    assert refused.returncode == 1
    assert "conflict" in refused.stderr
    apply({"k": "2"}, "--field-manager", "other", "--force-conflicts")
    assert k.ns.read("configmaps", "served")["data"] == {"k": "2"}


def test_create_configmap_and_secret_from_words(k: Kubectl) -> None:
    k("create", "configmap", "made", "--from-literal=k=v")
    k("create", "secret", "generic", "made", "--from-literal=k=v")
    assert k.ns.read("configmaps", "made")["data"] == {"k": "v"}
    assert k.ns.read("secrets", "made")["data"] == {"k": "dg=="}
    again = k.run("create", "configmap", "made", check=False)
    assert "already exists" in again.stderr


def test_create_namespace(k: Kubectl) -> None:
    name = f"{k.ns.name}-more"
    assert k("create", "namespace", name) == f"namespace/{name} created\n"
    assert "deleted" in k("delete", "namespace", name, "--wait=false")


def test_exec_and_its_exit_code(k: Kubectl) -> None:
    assert k("exec", "p", "--", "echo", "hi") == "hi\n"
    assert k("exec", "-i", "p", "--", "cat", stdin="typed") == "typed"
    assert k.run("exec", "p", "--", "sh", "-c", "exit 7", check=False).returncode == 7


def test_cp_both_ways(k: Kubectl, tmp_path: Path) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(bytes(range(256)) * 300)
    k("cp", str(there), "p:/tmp/there")
    k("cp", "p:/tmp/there", str(back))
    assert back.read_bytes() == there.read_bytes()


def test_label_and_annotate(k: Kubectl) -> None:
    k("label", "pod", "p", "tier=one")
    assert "already has a value" in k.run("label", "pod", "p", "tier=two", check=False).stderr
    k("label", "pod", "p", "tier=two", "--overwrite")
    k("annotate", "pod", "p", "example.com/note=text")
    meta = k.ns.read("pods", "p")["metadata"]
    assert (meta["labels"]["tier"], meta["annotations"]["example.com/note"]) == ("two", "text")
    k("label", "pod", "p", "tier-")
    assert "tier" not in k.ns.read("pods", "p")["metadata"]["labels"]


def test_patch_and_scale_subcommands(k: Kubectl) -> None:
    k("create", "configmap", "patched", "--from-literal=k=v")
    k("patch", "configmap", "patched", "-p", '{"data": {"k": "w"}}')
    k("patch", "configmap", "patched", "--type", "json", "-p", '[{"op": "add", "path": "/data/l", "value": "x"}]')
    assert k.ns.read("configmaps", "patched")["data"] == {"k": "w", "l": "x"}


def test_wait_for_a_condition_a_path_and_an_end(k: Kubectl, build: Build) -> None:
    k.ns.create("jobs", build.job("waited", "sleep 0.2", 1))
    assert "condition met" in k("wait", "--for=condition=complete", "job/waited", "--timeout=60s")
    k("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=10s")
    k.ns.create("configmaps", config_map("short"))
    k.ns.delete("configmaps", "short")
    k("wait", "--for=delete", "configmap/short", "--timeout=10s")
    late = k.run("wait", "--for=condition=ready", "pod/done", "--timeout=1s", check=False)
    assert (late.returncode, "timed out" in late.stderr) == (1, True)


def test_explain_knows_the_fields(k: Kubectl) -> None:
    text = k("explain", "job.spec.backoffLimitPerIndex")
    assert "backoffLimitPerIndex" in text
    assert "<integer>" in text
    assert "containers" in k("explain", "pod.spec")


def test_auth_can_i(k: Kubectl) -> None:
    assert k("auth", "can-i", "create", "pods").strip() == "yes"
    account = f"system:serviceaccount:{k.ns.name}:default"
    answer = k.run("auth", "can-i", "create", "pods", "--as", account, check=False)
    assert (answer.stdout.strip(), answer.returncode) == ("no", 1)


def test_api_resources_and_versions(k: Kubectl) -> None:
    names = k("api-resources", "-o", "name").split()
    assert {"pods", "jobs.batch", "daemonsets.apps", "leases.coordination.k8s.io"} <= set(names)
    assert "batch/v1" in k("api-versions").split()
    assert json.loads(k("version", "-o", "json"))["serverVersion"]["major"] == "1"


def test_delete_waits_for_the_end(k: Kubectl, build: Build) -> None:
    k.ns.create("pods", build.pod("short", STAYS))
    k.ns.running("short")
    assert "short" in k("delete", "pod", "short")
    assert k.ns.get("pods", "short").code == 404


def test_an_absent_object_is_named(k: Kubectl) -> None:
    answer = k.run("get", "pod", "nobody", check=False)
    assert answer.stderr == 'Error from server (NotFound): pods "nobody" not found\n'


@pytest.fixture
def drained(k: Kubectl) -> Iterator[str]:
    """A worker that may be cordoned, tainted and drained; put back as it was."""
    if not k.cluster.simulated:
        pytest.skip("changes a node: only on a cluster of our own")
    name = k.cluster.workers()[0]
    yield name
    k("uncordon", name)
    k.run("taint", "node", name, "gold-", check=False)


def _spec(k: Kubectl, node: str) -> Json:
    return json.loads(k("get", "node", node, "-o", "json"))["spec"]


def test_cordon_and_uncordon(k: Kubectl, drained: str) -> None:
    assert k("cordon", drained) == f"node/{drained} cordoned\n"
    assert _spec(k, drained)["unschedulable"] is True
    assert "SchedulingDisabled" in k("get", "node", drained)
    k("uncordon", drained)
    assert "unschedulable" not in _spec(k, drained)


def test_taint(k: Kubectl, drained: str) -> None:
    k("taint", "node", drained, "gold=yes:NoSchedule")
    assert {"key": "gold", "value": "yes", "effect": "NoSchedule"} in _spec(k, drained)["taints"]
    k("taint", "node", drained, "gold-")
    assert all(taint["key"] != "gold" for taint in _spec(k, drained).get("taints") or [])


def test_drain_evicts_what_runs_there(k: Kubectl, build: Build, drained: str) -> None:
    k.ns.create("pods", build.pod("there", STAYS, nodeName=drained))
    k.ns.create(
        "jobs", build.job("moves", ["sleep", "600"], 1, spec={"nodeSelector": {"kubernetes.io/hostname": drained}})
    )
    k.ns.running("there")
    k.ns.wait("jobs", "moves", lambda job: job["status"].get("ready") == 1)
    text = k(
        "drain",
        drained,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--force",
        "--grace-period=1",
        "--timeout=60s",
        "--pod-selector=batch.kubernetes.io/job-name=moves",
    )
    assert "evicted" in text
    assert "drained" in text
    pods = until(lambda: k.ns.job_pods("moves"), k.cluster.s(40), "another pod of the Job")
    k.ns.wait("pods", pods[-1]["metadata"]["name"], lambda pod: condition(pod, "PodScheduled") in {"False", "True"})
    k("delete", "job", "moves", "--wait=false")
