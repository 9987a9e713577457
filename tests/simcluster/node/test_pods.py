"""Pods on a simulated node behave as recorded on a real one (golden 01b, 05, 07c, 13, 14, 17, 18)."""

from __future__ import annotations

import json

from tests.simcluster.node.cluster_process import Namespace, state, terminated, wait_for


def conditions(pod: dict[str, object]) -> dict[str, tuple[str, str | None]]:
    found = pod["status"]["conditions"]  # type: ignore[index]
    return {item["type"]: (item["status"], item.get("reason")) for item in found}


def python(code: str, **more: object) -> dict[str, object]:
    return {"command": ["python3", "-c", code], **more}


def shell(code: str, **more: object) -> dict[str, object]:
    return {"command": ["sh", "-c", code], **more}


def test_a_pod_that_exits_0_is_succeeded(ns: Namespace) -> None:
    ns.pod("p", shell("echo hello; printf told > /dev/termination-log"))
    pod = ns.ended("p")
    assert pod["status"]["phase"] == "Succeeded"
    assert terminated(pod)["reason"] == "Completed"
    assert terminated(pod)["message"] == "told"
    assert conditions(pod) == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "PodScheduled": ("True", None),
    }
    assert ns.log("p") == "hello\n"
    assert {reason for reason, _ in ns.reasons("p")} >= {"Scheduled", "Pulled", "Created", "Started"}


def test_a_running_pod_is_ready_and_has_an_address(ns: Namespace) -> None:
    ns.pod("p", shell("sleep 100"))
    pod = ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    assert conditions(pod)["Ready"] == ("True", None)
    assert pod["status"]["podIP"].startswith("10.244.")
    assert pod["status"]["containerStatuses"][0]["started"] is True


def test_exit_codes_and_signals(ns: Namespace) -> None:
    ns.pod("seven", shell("exit 7"))
    ns.pod("segv", python("import os, signal; os.kill(os.fork() or os.getpid(), 0); import sys; sys.exit(139)"))
    ns.pod("escape", {"command": ["sh", "-c", "kill -9 $$$$; exit 5"]})
    assert terminated(ns.ended("seven"))["exitCode"] == 7
    assert terminated(ns.ended("seven"))["reason"] == "Error"
    assert terminated(ns.ended("segv"))["exitCode"] == 139
    assert terminated(ns.ended("escape"))["exitCode"] == 5, "PID 1 survives its own SIGKILL"


def test_a_command_that_does_not_exist_is_a_start_error(ns: Namespace) -> None:
    ns.pod("p", {"command": ["/no/such"]})
    pod = ns.ended("p")
    assert terminated(pod)["exitCode"] == 128
    assert terminated(pod)["reason"] == "StartError"
    assert terminated(pod)["startedAt"] == "1970-01-01T00:00:00Z"
    assert 'exec: "/no/such": stat /no/such: no such file or directory' in terminated(pod)["message"]
    assert any(reason == "Failed" and "runc create failed" in text for reason, text in ns.reasons("p"))


def test_a_file_as_working_directory_is_a_start_error(ns: Namespace) -> None:
    ns.pod("p", shell("true", workingDir="/etc/passwd"))
    assert "mkdir /etc/passwd: not a directory" in terminated(ns.ended("p"))["message"]


def test_on_failure_restarts_and_backs_off(ns: Namespace) -> None:
    ns.pod("p", shell("exit 1"), restartPolicy="OnFailure")
    pod = ns.until(
        "p",
        lambda pod: state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff",
        "CrashLoopBackOff",
    )
    status = pod["status"]["containerStatuses"][0]
    assert pod["status"]["phase"] == "Running"
    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert state(pod)["waiting"]["message"].startswith("back-off 10s restarting failed container=c pod=p_")


def test_memory_over_the_limit_is_oom_killed(ns: Namespace) -> None:
    hungry = "import time; data = bytearray(200 << 20); time.sleep(60)"
    ns.pod("p", python(hungry, resources={"limits": {"memory": "64Mi"}}))
    pod = ns.ended("p")
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (137, "OOMKilled")


def test_small_programs_stay_below_a_small_limit(ns: Namespace) -> None:
    ns.pod("p", python("import json, time; time.sleep(0.3)", resources={"limits": {"memory": "64Mi"}}))
    assert ns.ended("p")["status"]["phase"] == "Succeeded"


def test_only_the_last_4096_bytes_of_a_message_are_kept(ns: Namespace) -> None:
    ns.pod("p", python("open('/dev/termination-log', 'w').write('S' + 'x' * 20000 + 'Z')"))
    assert terminated(ns.ended("p"))["message"] == "x" * 4095 + "Z"


def test_five_containers_share_12_kib_of_messages(ns: Namespace) -> None:
    write = "open('/dev/termination-log', 'w').write('y' * 5000)"
    ns.pod("p", [python(write, name=f"c{number}") for number in range(5)])
    pod = ns.ended("p")
    assert [len(terminated(pod, f"c{number}")["message"]) for number in range(5)] == [2457] * 5


def test_fallback_to_logs_only_on_failure(ns: Namespace) -> None:
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    ns.pod("bad", shell("echo last words; exit 1", **policy))
    ns.pod("good", shell("echo last words", **policy))
    assert terminated(ns.ended("bad"))["message"] == "last words\n"
    assert "message" not in terminated(ns.ended("good"))


def test_the_message_is_there_while_another_container_holds_the_pod(ns: Namespace) -> None:
    hold = shell("trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done", name="hold")
    ns.pod("p", [shell("echo done > /dev/termination-log; exit 7", name="measure"), hold])
    pod = ns.until("p", lambda pod: terminated(pod, "measure"), "measure ends")
    assert terminated(pod, "measure")["message"] == "done\n"
    assert pod["status"]["phase"] == "Running"
    assert [item["name"] for item in pod["status"]["containerStatuses"]] == ["hold", "measure"]
    assert conditions(pod)["Ready"] == ("False", "ContainersNotReady")


def test_deletion_terms_then_kills_after_the_grace_period(ns: Namespace) -> None:
    ns.pod(
        "polite",
        python("import signal, time; signal.signal(15, lambda *_: exit(3)); print(1, flush=True); time.sleep(99)"),
    )
    ns.pod("deaf", shell("echo 1; sleep 99"), terminationGracePeriodSeconds=1)
    for name in ("polite", "deaf"):
        wait_for(lambda name=name: ns.get("pods", name)["status"]["phase"] == "Running" and ns.log(name), "runs")  # type: ignore[index, misc]
        ns.delete(name)
        wait_for(lambda name=name: ns.get("pods", name) is None, f"{name} is gone")  # type: ignore[misc]
    assert any(reason == "Killing" and text == "Stopping container c" for reason, text in ns.reasons("deaf"))


def test_init_containers_run_in_order_before_the_app(ns: Namespace) -> None:
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/shared"}]}
    inits = [
        {"name": f"i{number}", "image": "simcluster.local/python:3", **shell(f"echo {number} >> /shared/x"), **mount}
        for number in (1, 2)
    ]
    ns.pod("p", shell("cat /shared/x", **mount), initContainers=inits, **volume)
    pod = ns.ended("p")
    assert pod["status"]["phase"] == "Succeeded"
    assert ns.log("p", "?container=c") == "1\n2\n"
    assert [item["ready"] for item in pod["status"]["initContainerStatuses"]] == [True, True]


def test_a_failing_init_container_fails_the_pod_and_the_app_never_starts(ns: Namespace) -> None:
    init = {"name": "i", "image": "simcluster.local/python:3", **shell("exit 4")}
    ns.pod("p", shell("true"), initContainers=[init])
    pod = ns.ended("p")
    assert pod["status"]["phase"] == "Failed"
    assert state(pod) == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(pod)["Initialized"] == ("False", "ContainersNotInitialized")


def test_a_sidecar_is_stopped_after_the_app_and_does_not_decide(ns: Namespace) -> None:
    sidecar = {"name": "side", "image": "simcluster.local/python:3", **shell("sleep 99"), "restartPolicy": "Always"}
    ns.pod("p", shell("true"), initContainers=[sidecar], terminationGracePeriodSeconds=1)
    pod = ns.ended("p")
    assert pod["status"]["phase"] == "Succeeded"
    assert terminated(pod, "side", "initContainerStatuses")["exitCode"] == 137


def test_active_deadline_fails_the_pod_even_where_it_exits_0(ns: Namespace) -> None:
    quiet = "import signal, time; signal.signal(15, lambda *_: exit(0)); time.sleep(99)"
    ns.pod("p", python(quiet), activeDeadlineSeconds=1)
    pod = ns.ended("p")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")


def test_more_gpus_than_the_node_has_are_refused_by_the_kubelet(ns: Namespace) -> None:
    ns.pod("p", shell("true", resources={"limits": {"nvidia.com/gpu": "3"}}), nodeName="gpu-01")
    pod = ns.ended("p")
    assert pod["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert pod["status"]["message"] == (
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 3, used: 0, capacity: 2"
    )
    assert "containerStatuses" not in pod["status"]


def test_a_selector_that_does_not_match_is_refused_by_the_kubelet(ns: Namespace) -> None:
    ns.pod("p", shell("true"), nodeName="gpu-01", nodeSelector={"no": "such"})
    assert ns.ended("p")["status"]["reason"] == "NodeAffinity"


def test_a_container_sees_the_gpus_it_was_granted_and_no_more(ns: Namespace) -> None:
    ask = (
        "import ctypes, json, subprocess\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "code, count = cuda.cuInit(0), ctypes.c_int()\n"
        "cuda.cuDeviceGetCount(ctypes.byref(count))\n"
        "listed = subprocess.run(['nvidia-smi', '-L'], capture_output=True, text=True)\n"
        "print(json.dumps([code, count.value, listed.stdout.count('GPU-'), listed.returncode]))\n"
    )
    one = python(ask, name="one", resources={"limits": {"nvidia.com/gpu": "1"}})
    ns.pod("p", [one, python(ask, name="none")], nodeName="gpu-01")
    ns.ended("p")
    assert json.loads(ns.log("p", "?container=one")) == [0, 1, 1, 0]
    assert json.loads(ns.log("p", "?container=none")) == [100, 0, 0, 6]


def test_wrong_images(ns: Namespace) -> None:
    def reason(name: str) -> str:
        pod = ns.get("pods", name) or {}
        found: str = state(pod).get("waiting", {}).get("reason", "")
        return found

    ns.pod("capital", {"image": "UPPER/Case:1"})
    ns.pod("never", {"image": "simcluster.local/other:1", "imagePullPolicy": "Never"})
    ns.pod("absent", {"image": "simcluster.local/torch:99"})
    wait_for(lambda: reason("capital") == "InvalidImageName", "InvalidImageName")
    wait_for(lambda: reason("never") == "ErrImageNeverPull", "ErrImageNeverPull")
    wait_for(lambda: reason("absent") == "ErrImagePull", "ErrImagePull")
    wait_for(lambda: reason("absent") == "ImagePullBackOff", "ImagePullBackOff")
    assert (ns.get("pods", "absent") or {})["status"]["phase"] == "Pending"


def test_missing_configuration_waits_and_then_starts(ns: Namespace) -> None:
    environment = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
    ns.pod("env", shell("echo $A", env=environment))
    ns.pod(
        "vol",
        shell("cat /v/a", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "configMap": {"name": "late"}}],
    )
    pod = ns.until("env", lambda pod: "CreateContainerConfigError" in str(pod["status"]), "config error")
    assert state(pod)["waiting"]["message"] == 'configmap "late" not found'
    wait_for(lambda: "FailedMount" in dict(ns.reasons("vol")), "FailedMount")
    assert state(ns.get("pods", "vol") or {}) == {"waiting": {"reason": "ContainerCreating"}}
    ns.create("configmaps", {"metadata": {"name": "late"}, "data": {"a": "here"}})
    for name in ("env", "vol"):
        assert ns.ended(name)["status"]["phase"] == "Succeeded"
        assert ns.log(name).strip() == "here"


def test_containers_that_share_processes_see_each_other_and_are_not_the_first(ns: Namespace) -> None:
    code = "import os, signal; print(os.getpid() != 1); os.kill(os.getpid(), signal.SIGKILL)"
    ns.pod("p", python(code.replace("; os", "; import sys; sys.stdout.flush(); os", 1)), shareProcessNamespace=True)
    assert terminated(ns.ended("p"))["exitCode"] == 137
    assert ns.log("p") == "True\n"


def test_a_pre_stop_hook_runs_before_the_signal(ns: Namespace) -> None:
    code = "trap 'cat /tmp/order; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /tmp/order"]}}}
    ns.pod("p", shell(code, lifecycle=hook), terminationGracePeriodSeconds=9, activeDeadlineSeconds=1)
    assert terminated(ns.ended("p"))["exitCode"] == 0
    assert ns.log("p") == "ready\nhook\n"


def test_a_label_given_through_the_api_counts_for_admission(ns: Namespace) -> None:
    label = {"metadata": {"labels": {"fresh": ns.name}}}
    ns.api.call("PATCH", "/api/v1/nodes/gpu-02", label, "application/merge-patch+json")
    ns.pod("p", shell("true"), nodeSelector={"fresh": ns.name})
    pod = ns.ended("p")
    assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Succeeded", "gpu-02")
