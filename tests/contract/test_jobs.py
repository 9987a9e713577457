"""Indexed Jobs: indexes, names, counters, every policy that the harness uses."""

from __future__ import annotations

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, condition, index_of, phase, terminated, verdict
from tests.contract.http import Json
from tests.contract.waiting import holds, until

INDEX = "$JOB_COMPLETION_INDEX"


def _reason(job: Json, kind: str) -> str | None:
    return condition(job, kind, "reason") if condition(job, kind) == "True" else None


def test_each_index_is_told_to_its_pod_in_five_places(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", f"echo {INDEX} $HOSTNAME $(hostname)", 3))
    ns.job_done("j")
    pods = ns.job_pods("j")
    assert [index_of(pod) for pod in pods] == [0, 1, 2]
    for index, pod in enumerate(pods):
        meta = pod["metadata"]
        assert meta["labels"]["batch.kubernetes.io/job-completion-index"] == str(index)
        assert meta["labels"]["job-name"] == "j"
        assert meta["generateName"] == f"j-{index}-"
        assert pod["spec"]["hostname"] == f"j-{index}"
        assert ns.log(meta["name"]).text == f"{index} j-{index} j-{index}\n"


def test_a_finished_job_tells_what_was_done(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 4))
    job = ns.job_done("j")
    status = job["status"]
    assert verdict(job) == "Complete"
    assert (status["succeeded"], status["completedIndexes"]) == (4, "0-3")
    assert status["completionTime"] >= status["startTime"]
    assert "active" not in status
    assert condition(job, "SuccessCriteriaMet") == "True"


def test_pods_of_a_job_carry_owner_labels_and_lose_the_finalizer(ns: Namespace, build: Build) -> None:
    job = ns.create("jobs", build.job("j", "true", 1))
    ns.job_done("j")
    meta = ns.job_pods("j")[0]["metadata"]
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "j", True)
    assert owner["uid"] == job["metadata"]["uid"] == meta["labels"]["batch.kubernetes.io/controller-uid"]
    assert "finalizers" not in meta


def test_parallelism_limits_what_runs_at_once(ns: Namespace, build: Build) -> None:
    with ns.watch("jobs") as watch:
        ns.create("jobs", build.job("j", "sleep 0.2", 6, parallelism=2))
        ns.job_done("j")
        active = [event["object"]["status"].get("active", 0) for event in watch.events]
    assert max(active) == 2


def test_backoff_limit_0_ends_the_job_and_its_running_pods(ns: Namespace, build: Build) -> None:
    script = f"if [ {INDEX} = 1 ]; then sleep 0.3; exit 3; fi; {STAYS}"
    ns.create("jobs", build.job("j", script, 3, backoffLimit=0))
    job = ns.job_done("j")
    assert _reason(job, "Failed") == _reason(job, "FailureTarget") == "BackoffLimitExceeded"
    assert job["status"]["failed"] == 3, "the pods that were killed count as failed"
    until(lambda: len(ns.job_pods("j")) == 1, ns.cluster.s(20), "only the pod that failed by itself stays")
    assert terminated(ns.job_pods("j")[0])["exitCode"] == 3


def test_failure_target_comes_before_failed(ns: Namespace, build: Build) -> None:
    with ns.watch("jobs") as watch:
        ns.create("jobs", build.job("j", f"if [ {INDEX} = 1 ]; then exit 3; fi; {STAYS}", 2, backoffLimit=0))
        ns.job_done("j")
        kinds = [
            {found["type"] for found in event["object"]["status"].get("conditions") or []} for event in watch.events
        ]
    assert {"FailureTarget"} in kinds
    assert {"FailureTarget", "Failed"} in kinds


def test_a_failed_pod_is_retried_under_a_new_name(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "exit 3", 1, backoffLimit=1))
    job = ns.job_done("j")
    pods = ns.job_pods("j")
    assert _reason(job, "Failed") == "BackoffLimitExceeded"
    assert job["status"]["failed"] == len(pods) == 2
    assert len({pod["metadata"]["name"] for pod in pods}) == 2
    assert {index_of(pod) for pod in pods} == {0}


def test_backoff_limit_per_index_lets_the_others_end(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", f"[ {INDEX} != 1 ]", 4, backoffLimitPerIndex=0))
    job = ns.job_done("j")
    status = job["status"]
    assert _reason(job, "Failed") == "FailedIndexes"
    assert (status["failedIndexes"], status["completedIndexes"]) == ("1", "0,2,3")
    assert (status["failed"], status["succeeded"]) == (1, 3)
    assert len(ns.job_pods("j")) == 4, "no replacement"


def test_failed_indexes_is_there_from_the_start_if_it_may_be_needed(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("with", STAYS, 1, backoffLimitPerIndex=0))
    ns.create("jobs", build.job("without", STAYS, 1))
    job = ns.wait("jobs", "with", lambda found: found["status"].get("active") == 1)
    assert job["status"]["failedIndexes"] == ""
    job = ns.wait("jobs", "without", lambda found: found["status"].get("active") == 1)
    assert "failedIndexes" not in job["status"]


def test_retries_per_index_are_counted_on_the_pods(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", f"[ {INDEX} != 1 ]", 2, backoffLimitPerIndex=1))
    job = ns.job_done("j")
    key = "batch.kubernetes.io/job-index-failure-count"
    counts = sorted(pod["metadata"]["annotations"][key] for pod in ns.job_pods("j") if index_of(pod) == 1)
    assert counts == ["0", "1"]
    assert job["status"]["failedIndexes"] == "1"


def test_max_failed_indexes_ends_the_job(ns: Namespace, build: Build) -> None:
    script = f"if [ {INDEX} -le 1 ]; then exit 3; fi; {STAYS}"
    ns.create("jobs", build.job("j", script, 4, backoffLimitPerIndex=0, maxFailedIndexes=1))
    job = ns.job_done("j")
    assert _reason(job, "Failed") == "MaxFailedIndexesExceeded"
    assert job["status"]["failedIndexes"] == "0,1"
    assert job["status"].get("completedIndexes", "") == "", "killed indexes are in no list"


def _policy(*rules: Json) -> Json:
    return {"rules": list(rules)}


def test_policy_fail_index_does_not_retry(ns: Namespace, build: Build) -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}
    script = f"[ {INDEX} != 1 ] || exit 42"
    ns.create("jobs", build.job("j", script, 3, backoffLimitPerIndex=3, podFailurePolicy=_policy(rule)))
    job = ns.job_done("j")
    assert (_reason(job, "Failed"), job["status"]["failedIndexes"]) == ("FailedIndexes", "1")
    assert len(ns.job_pods("j")) == 3


def test_policy_fail_job_names_container_pod_code_and_rule(ns: Namespace, build: Build) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}
    ns.create("jobs", build.job("j", f"[ {INDEX} != 1 ] || exit 7; {STAYS}", 2, podFailurePolicy=_policy(rule)))
    job = ns.job_done("j")
    assert _reason(job, "Failed") == "PodFailurePolicy"
    message = condition(job, "Failed", "message") or ""
    assert message.startswith(f"Container c for pod {ns.name}/j-1-")
    assert message.endswith("failed with exit code 7 matching FailJob rule at index 0")


def test_policy_ignore_forgives_an_eviction(ns: Namespace, build: Build) -> None:
    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    script = "trap 'exit 1' TERM; while :; do sleep 600 & wait $!; done"
    ns.create("jobs", build.job("j", script, 1, backoffLimit=0, podFailurePolicy=_policy(ignore)))
    until(lambda: ns.job_pods("j"), ns.cluster.s(10), "the pod")
    first = ns.running(ns.job_pods("j")[0]["metadata"]["name"])["metadata"]["name"]
    with ns.watch("pods") as watch:
        assert ns.evict(first).code == 201
        until(
            lambda: any(pod["metadata"]["name"] != first for pod in ns.job_pods("j")), ns.cluster.s(40), "a replacement"
        )
        ends = [event["object"] for event in watch.events if event["object"]["metadata"]["name"] == first]
    assert verdict(ns.read("jobs", "j")) is None
    assert condition(ends[-1], "DisruptionTarget", "reason") == "EvictionByEvictionAPI"
    assert phase(ends[-1]) == "Failed"


def test_the_deadline_of_a_job_kills_its_pods(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", STAYS, 2, activeDeadlineSeconds=1))
    job = ns.job_done("j")
    assert _reason(job, "Failed") == "DeadlineExceeded"
    assert job["status"]["failed"] == 2
    until(lambda: not ns.job_pods("j"), ns.cluster.s(20), "its pods are gone")


def test_a_ttl_removes_job_and_pods(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 1, ttlSecondsAfterFinished=1))
    ns.gone("jobs", "j")
    until(lambda: not ns.job_pods("j"), ns.cluster.s(10), "its pods are gone")


def test_a_ttl_of_0_shows_the_end_to_a_watch_only(ns: Namespace, build: Build) -> None:
    with ns.watch("jobs") as watch:
        ns.create("jobs", build.job("j", "exit 1", 1, backoffLimit=0, ttlSecondsAfterFinished=0))
        until(lambda: watch.events and watch.events[-1]["type"] == "DELETED", ns.cluster.s(30), "the end")
        assert any(verdict(event["object"]) == "Failed" for event in watch.events)


def test_a_suspended_job_has_no_pods_until_it_is_resumed(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 2, suspend=True))
    job = ns.wait("jobs", "j", lambda found: condition(found, "Suspended") == "True")
    assert "startTime" not in job["status"]
    assert ns.job_pods("j") == []
    ns.patch("jobs", "j", {"spec": {"suspend": False}})
    job = ns.job_done("j")
    assert condition(job, "Suspended") == "False"
    assert job["status"]["startTime"]
    assert {event["reason"] for event in ns.events("j")} >= {"Suspended", "Resumed", "Completed"}


def test_suspending_removes_running_pods_and_counts_nothing(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", STAYS, 2))
    ns.wait("jobs", "j", lambda found: found["status"].get("ready") == 2)
    ns.patch("jobs", "j", {"spec": {"suspend": True}})
    until(lambda: not ns.job_pods("j"), ns.cluster.s(20), "its pods are gone")
    status = ns.wait("jobs", "j", lambda found: not found["status"].get("terminating"))["status"]
    assert "active" not in status
    assert not status.get("succeeded")
    assert not status.get("failed")


def test_a_deleted_pod_is_a_failure_of_its_index(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", ["sleep", "600"], 2, backoffLimitPerIndex=0))
    ns.wait("jobs", "j", lambda found: found["status"].get("ready") == 2)
    ns.delete("pods", ns.job_pods("j")[0]["metadata"]["name"])
    ns.wait("jobs", "j", lambda found: found["status"].get("failedIndexes") == "0")


def test_deletion_in_the_background_takes_the_pods_along(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", STAYS, 2))
    until(lambda: len(ns.job_pods("j")) == 2, ns.cluster.s(10), "its pods")
    answer = ns.delete("jobs", "j", propagationPolicy="Background")
    assert (answer.json["kind"], answer.json["details"]["name"]) == ("Status", "j")
    assert ns.get("jobs", "j").code == 404
    until(lambda: not ns.job_pods("j"), ns.cluster.s(20), "its pods are gone")


def test_deletion_in_the_foreground_waits_for_the_pods(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", STAYS, 1))
    until(lambda: ns.job_pods("j"), ns.cluster.s(10), "its pod")
    ns.running(ns.job_pods("j")[0]["metadata"]["name"])
    held = ns.delete("jobs", "j", propagationPolicy="Foreground").json
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    ns.gone("jobs", "j")
    assert ns.job_pods("j") == []


def test_deletion_without_a_policy_orphans_and_warns(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", STAYS, 1))
    until(lambda: ns.job_pods("j"), ns.cluster.s(10), "its pod")
    answer = ns.delete("jobs", "j")
    assert "child pods are preserved by default" in answer.headers["Warning"]
    ns.gone("jobs", "j")
    pods = until(
        lambda: [pod for pod in ns.job_pods("j") if "ownerReferences" not in pod["metadata"]],
        ns.cluster.s(10),
        "an orphan",
    )
    assert "deletionTimestamp" not in pods[0]["metadata"]


def test_a_quota_of_no_pods_shows_no_pod_no_condition_and_an_event(ns: Namespace, build: Build) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    ns.create("resourcequotas", quota)
    until(lambda: _refuses(ns, build), ns.cluster.s(10), "the quota is enforced")
    ns.create("jobs", build.job("j", "true", 1))
    events = until(lambda: ns.events("j", "FailedCreate"), ns.cluster.s(20), "an event")
    assert "is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in events[0]["message"]
    assert events[0]["type"] == "Warning"
    assert ns.job_pods("j") == []
    assert not ns.read("jobs", "j")["status"].get("conditions")


def _refuses(ns: Namespace, build: Build) -> bool:
    return ns.post("pods", build.pod("probe", "true"), query={"dryRun": "All"}).code == 403


def test_a_finished_pods_resources_are_free_at_once(cluster: Cluster, ns: Namespace, build: Build) -> None:
    node, resource, amount = _scarce(cluster)
    requests = {"requests": {resource: amount}, "limits": {resource: amount}}
    pin = {"nodeSelector": {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}}
    body = build.job("j", "sleep 0.2", 3, spec=pin)
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = requests
    ns.create("jobs", body)
    job = ns.job_done("j")
    pods = ns.job_pods("j")
    assert verdict(job) == "Complete"
    assert {pod["spec"]["nodeName"] for pod in pods} == {node["metadata"]["name"]}
    assert {phase(pod) for pod in pods} == {"Succeeded"}, "they went one after the other; all objects are still there"


def _scarce(cluster: Cluster) -> tuple[Json, str, str]:
    """A node and an amount of one of its resources of which only one pod fits."""
    workers = set(cluster.workers())
    node = next(found for found in cluster.nodes() if found["metadata"]["name"] in workers)
    gpus = int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))
    if gpus:
        return node, "nvidia.com/gpu", str(gpus)
    cpus = node["status"]["allocatable"]["cpu"]
    millis = int(cpus[:-1]) if cpus.endswith("m") else int(float(cpus) * 1000)
    return node, "cpu", f"{millis * 51 // 100}m"


def test_completions_change_only_together_with_parallelism(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 2, suspend=True))
    answer = ns.patch("jobs", "j", {"spec": {"completions": 3}})
    assert answer.code == 422
    assert "can only be modified in tandem with spec.parallelism" in answer.json["message"]
    assert ns.patch("jobs", "j", {"spec": {"completions": 3, "parallelism": 3}}).code == 200


def test_the_template_of_a_job_is_immutable(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 1))
    patch = {"spec": {"template": {"spec": {"containers": [build.container("c", "false")]}}}}
    answer = ns.patch("jobs", "j", patch)
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "spec.template"


def test_an_image_that_cannot_be_pulled_never_ends_a_job(ns: Namespace, build: Build) -> None:
    body = build.job("j", "true", 1, backoffLimit=0)
    body["spec"]["template"]["spec"]["containers"][0] |= {"image": "contract.invalid/absent:1"}
    ns.create("jobs", body)
    until(lambda: ns.job_pods("j"), ns.cluster.s(10), "its pod")
    name = ns.job_pods("j")[0]["metadata"]["name"]
    until(lambda: ns.events(name, "Failed"), ns.cluster.s(60), "an event that the pull failed")
    job = ns.read("jobs", "j")
    assert job["status"]["active"] == 1
    holds(lambda: verdict(ns.read("jobs", "j")) is None, 0.5, "it has no condition")


def test_a_job_without_completions_is_complete_at_once(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", 0))
    assert verdict(ns.job_done("j")) == "Complete"
    assert ns.job_pods("j") == []
