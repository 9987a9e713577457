"""Single pods: phases, exit codes, grace, restarts, init containers, expansion."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.contract.cluster import (
    STAYS,
    Build,
    Cluster,
    Namespace,
    condition,
    container,
    phase,
    terminated,
    waiting,
)
from tests.contract.http import Json
from tests.contract.waiting import until

HUNGRY = "import time; data = bytearray(300 << 20); data[::4096] = b'x' * len(data[::4096]); time.sleep(600)"


@pytest.fixture(scope="module")
def ended(cluster: Cluster, build: Build) -> Iterator[dict[str, Json]]:
    """Pods that end in all ways, started together."""
    ns = cluster.namespace()
    scripts: dict[str, str | list[str]] = {
        "zero": "exit 0",
        "three": "exit 3",
        "segv": ["python3", "-c", "import ctypes; ctypes.string_at(0)"],
        "killed": "python3 -c 'import os; os.kill(os.getpid(), 9)'; exit $?",
        "pid1": "kill -9 $$$$; exit 5",
        "absent": ["/no/such"],
        "notexec": ["/etc/passwd"],
        "hungry": ["python3", "-c", HUNGRY],
        "dollar": ["echo", "$(X)", "$$(X)", "${X}", "$(NO)", "$$$$"],
    }
    for name, script in scripts.items():
        pod = build.pod(name, script)
        first = pod["spec"]["containers"][0]
        first["env"] = [{"name": "X", "value": "x"}]
        if name == "hungry":
            first["resources"] = {"limits": {"memory": "64Mi"}}
        ns.create("pods", pod)
    found = {name: ns.finished(name) for name in scripts}
    found["dollar log"] = {"text": ns.log("dollar").text}
    yield found
    ns.drop()


@pytest.mark.parametrize(
    ("name", "code", "reason", "ends"),
    [
        ("zero", 0, "Completed", "Succeeded"),
        ("three", 3, "Error", "Failed"),
        ("segv", 139, "Error", "Failed"),
        ("killed", 137, "Error", "Failed"),
        ("pid1", 5, "Error", "Failed"),
        ("absent", 128, "StartError", "Failed"),
        ("notexec", 128, "StartError", "Failed"),
        ("hungry", 137, "OOMKilled", "Failed"),
    ],
)
def test_how_a_container_ended(ended: dict[str, Json], name: str, code: int, reason: str, ends: str) -> None:
    state = terminated(ended[name])
    assert (phase(ended[name]), state["exitCode"], state["reason"]) == (ends, code, reason)


def test_a_container_that_never_started_has_no_start(ended: dict[str, Json]) -> None:
    state = terminated(ended["absent"])
    assert state["startedAt"] == "1970-01-01T00:00:00Z"
    assert "no such file or directory" in state["message"]


def test_only_references_are_expanded(ended: dict[str, Json]) -> None:
    assert ended["dollar log"]["text"] == "x $(X) ${X} $(NO) $$\n"


def test_conditions_tell_the_way_of_a_pod(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", STAYS))
    pod = ns.running("p")
    for kind in ("PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"):
        assert condition(pod, kind) == "True"
    status = container(pod)
    assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0)
    assert status["state"]["running"]["startedAt"]
    assert pod["status"]["podIP"] == pod["status"]["podIPs"][0]["ip"]
    assert pod["status"]["hostIP"]


def test_a_pod_that_ends_goes_through_running_before_its_phase_is_final(ns: Namespace, build: Build) -> None:
    with ns.watch("pods") as watch:
        ns.create("pods", build.pod("p", "sleep 0.5"))
        ns.finished("p")
        told = [(phase(event["object"]), bool(terminated(event["object"]))) for event in watch.events]
    assert told[0] == ("Pending", False)
    assert ("Running", False) in told
    assert ("Running", True) in told, "terminated is told while the phase is still Running"
    assert told[-1] == ("Succeeded", True)


def test_a_program_that_ends_on_term_ends_early(ns: Namespace, build: Build) -> None:
    ns.create(
        "pods",
        build.pod("p", "trap 'exit 4' TERM; while :; do sleep 600 & wait $!; done", terminationGracePeriodSeconds=60),
    )
    ns.running("p")
    with ns.watch("pods") as watch:
        start = time.monotonic()
        answer = ns.delete("pods", "p")
        assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 60
        ns.gone("pods", "p")
        assert time.monotonic() - start < 40
        codes = {terminated(event["object"]).get("exitCode") for event in watch.events}
    assert 4 in codes


def test_pid_1_without_a_handler_ignores_term_and_is_killed_after_its_grace(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", ["sleep", "600"]))
    ns.running("p")
    with ns.watch("pods") as watch:
        start = time.monotonic()
        ns.delete("pods", "p", gracePeriodSeconds=1)
        ns.gone("pods", "p")
        assert time.monotonic() - start > 0.9
        codes = {terminated(event["object"]).get("exitCode") for event in watch.events}
    assert 137 in codes


def test_deletion_with_grace_0_is_at_once_and_leaves_no_message(ns: Namespace, build: Build) -> None:
    script = "trap 'printf late > /dev/termination-log; exit 1' TERM; while :; do sleep 600 & wait $!; done"
    ns.create("pods", build.pod("p", script))
    ns.running("p")
    with ns.watch("pods") as watch:
        ns.delete("pods", "p", gracePeriodSeconds=0)
        assert ns.get("pods", "p").code == 404
        until(lambda: watch.events and watch.events[-1]["type"] == "DELETED", ns.cluster.s(10), "the last event")
        assert not any(terminated(event["object"]).get("message") for event in watch.events)


def test_a_deadline_of_a_pod_fails_it_whatever_its_code(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", STAYS, activeDeadlineSeconds=1))
    pod = ns.finished("p")
    assert (phase(pod), pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert "deletionTimestamp" not in pod["metadata"]


def test_a_crash_loop_is_a_waiting_reason_of_a_running_pod(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "exit 1", restartPolicy="OnFailure"))
    pod = ns.wait("pods", "p", lambda found: waiting(found) == "CrashLoopBackOff", 90)
    assert phase(pod) == "Running"
    assert container(pod)["restartCount"] >= 1
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 1
    until(lambda: ns.events("p", "BackOff"), ns.cluster.s(30), "a BackOff event")


def test_init_containers_run_one_after_the_other_before_the_rest(ns: Namespace, build: Build) -> None:
    volume = {"name": "v", "emptyDir": {}}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec: dict[str, Json] = {
        "volumes": [volume],
        "initContainers": [
            build.container("one", "echo one >> /v/log", **mount),
            build.container("two", "echo two >> /v/log", **mount),
        ],
        "containers": [build.container("c", "cat /v/log", **mount)],
    }
    ns.create("pods", build.pod("p", "", **spec))
    pod = ns.finished("p")
    assert ns.log("p").text == "one\ntwo\n"
    assert condition(pod, "Initialized") == "True"
    assert [found["name"] for found in pod["status"]["initContainerStatuses"]] == ["one", "two"]


def test_a_failing_init_container_keeps_the_others_waiting(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true", initContainers=[build.container("i", "exit 4")]))
    pod = ns.finished("p")
    assert phase(pod) == "Failed"
    assert container(pod, "i", "initContainerStatuses")["state"]["terminated"]["exitCode"] == 4
    assert waiting(pod) == "PodInitializing"


def test_a_sidecar_ends_with_the_pod(ns: Namespace, build: Build) -> None:
    side = build.container("side", STAYS, restartPolicy="Always")
    ns.create("pods", build.pod("p", "sleep 0.3", initContainers=[side]))
    pod = ns.finished("p")
    assert phase(pod) == "Succeeded"
    assert container(pod, "side", "initContainerStatuses")["state"]["terminated"]


def test_statuses_are_found_by_name_only(ns: Namespace, build: Build) -> None:
    spec: dict[str, Json] = {"containers": [build.container("measure", "exit 7"), build.container("hold", "sleep 0.2")]}
    ns.create("pods", build.pod("p", "", **spec))
    pod = ns.finished("p")
    assert (terminated(pod, "measure")["exitCode"], terminated(pod, "hold")["exitCode"]) == (7, 0)
    assert phase(pod) == "Failed"
    assert sorted(found["name"] for found in pod["status"]["containerStatuses"]) == ["hold", "measure"]


def test_defaults_are_filled_in(ns: Namespace) -> None:
    minimal = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "contract.invalid/x:1"}], "nodeSelector": {"no": "such"}},
    }
    spec = ns.create("pods", minimal)["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"], spec["dnsPolicy"]) == (
        "Always",
        30,
        "ClusterFirst",
    )
    assert (spec["schedulerName"], spec["serviceAccountName"]) == ("default-scheduler", "default")
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    tolerated = {found["key"]: found["tolerationSeconds"] for found in spec["tolerations"]}
    assert tolerated == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}
    assert ns.read("pods", "p")["status"]["qosClass"] == "BestEffort"


def test_the_shared_process_namespace_has_another_pid_1(ns: Namespace, build: Build) -> None:
    script = "import os; print(os.getpid() != 1)"
    ns.create("pods", build.pod("p", ["python3", "-c", script], shareProcessNamespace=True))
    ns.finished("p")
    assert ns.log("p").text == "True\n"


def test_a_pod_cannot_see_another_pods_processes(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("other", STAYS))
    ns.running("other")
    ns.create(
        "pods",
        build.pod("p", ["python3", "-c", "import os; print(sorted(n for n in os.listdir('/proc') if n.isdigit()))"]),
    )
    ns.finished("p")
    assert ns.log("p").text == "['1']\n"
