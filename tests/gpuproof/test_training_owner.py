# ruff: noqa: ARG002  (it implements a port; not every argument matters)
"""Whose a training's pods are: what each owner is asked for, how it says that it gave up, what a profile may say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuproof.admission import KUEUE, VOLCANO, Queue
from gpuproof.cluster.port import JOB_SETS, TRAIN_JOBS, ClusterError, Listing, Resource
from gpuproof.failure import Reason
from gpuproof.manifests import JOB_LABEL, PodSettings, Renderer, TrainingJob
from gpuproof.options import LaunchError, Options
from gpuproof.preflight import read
from gpuproof.training_choice import Choice, ChoiceError, read_choice, refuse_unserved
from gpuproof.training_owner import INDEXED_JOB, JOB_SET, OWNERS, TRAIN_JOB, VOLCANO_JOB, TrainingOwner
from tests.gpuproof.toy_cluster import ToyCluster

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def made(owner: TrainingOwner, queue: Queue | None = None) -> list[dict[str, Any]]:
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 8, 20, 30, 900, owner=owner, queue=queue)
    return list(renderer.training(job))


def job_spec(owner: TrainingOwner) -> dict[str, Any]:
    """The Indexed Job's spec in what is rendered, however deep it lies."""
    objects = made(owner)
    jobs: dict[str, Any] = {
        "Job": lambda: objects[-1]["spec"],
        "JobSet": lambda: objects[-1]["spec"]["replicatedJobs"][0]["template"]["spec"],
        "TrainJob": lambda: objects[0]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"],
    }
    found: dict[str, Any] = jobs[owner.word]()
    return found


def template(owner: TrainingOwner) -> dict[str, Any]:
    found: dict[str, Any]
    found = made(owner)[-1]["spec"]["tasks"][0]["template"] if owner is VOLCANO_JOB else job_spec(owner)["template"]
    return found


def env(owner: TrainingOwner) -> dict[str, Any]:
    (measure,) = template(owner)["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in measure["env"]}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_what_is_made_is_of_the_kinds_that_are_watched_and_deleted(owner: TrainingOwner) -> None:
    objects = made(owner)
    assert [f"apis/{one['apiVersion']}".replace("apis/v1", "api/v1") for one in objects] == [
        resource.prefix for _, resource in owner.makes
    ]
    assert [f"{one['kind'].lower()}s" for one in objects] == [resource.plural for _, resource in owner.makes]
    assert {one["metadata"]["name"] for one in objects} == {"killed-1"}, "one name finds all of it"
    assert template(owner)["metadata"]["labels"][JOB_LABEL] == "killed-1", "by which its pods are watched"


@pytest.mark.parametrize("owner", [JOB_SET, TRAIN_JOB], ids=lambda owner: str(owner.word))
def test_a_set_of_jobs_is_made_anew_as_a_whole_and_not_pod_by_pod(owner: TrainingOwner) -> None:
    spec = job_spec(owner)
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed"), "its first lost pod fails the Job"
    outer = made(owner)[-1]["spec"] if owner is JOB_SET else made(owner)[0]["spec"]["template"]["spec"]
    policy = outer["failurePolicy"]
    assert policy["maxRestarts"] == 20
    (rule,) = policy["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["DeadlineExceeded"])
    assert env(owner)["GPUPROOF_MASTER"] == "killed-1-node-0-0.killed-1"
    assert "subdomain" not in template(owner)["spec"], "the operator's own"
    assert "JOB_COMPLETION_INDEX" not in env(owner), "the Job controller's own"


def test_a_train_job_refers_to_the_runtime_beside_it() -> None:
    runtime, owner = made(TRAIN_JOB)
    assert owner["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": runtime["kind"],
        "name": runtime["metadata"]["name"],
    }


def test_a_volcano_job_is_placed_and_restarted_as_a_whole_and_tells_its_pods_their_index() -> None:
    (owner,) = made(VOLCANO_JOB, Queue("team-a", 60, VOLCANO))
    spec = owner["spec"]
    assert (spec["queue"], spec["minAvailable"], spec["maxRetry"]) == ("team-a", 2, 20)
    assert [(one["event"], one["action"]) for one in spec["policies"]] == [
        ("PodFailed", "RestartJob"),
        ("PodEvicted", "RestartJob"),
    ]
    index = {"fieldRef": {"fieldPath": "metadata.annotations['volcano.sh/task-index']"}}
    assert env(VOLCANO_JOB)["JOB_COMPLETION_INDEX"] == index
    assert env(VOLCANO_JOB)["GPUPROOF_MASTER"] == "killed-1-node-0.killed-1"
    assert QUEUE_LABEL not in owner["metadata"]["labels"]
    assert "queue" not in made(VOLCANO_JOB)[0]["spec"]


@pytest.mark.parametrize("owner", [INDEXED_JOB, JOB_SET, TRAIN_JOB], ids=lambda owner: str(owner.word))
def test_what_kueue_is_to_let_in_begins_suspended_with_its_label(owner: TrainingOwner) -> None:
    queued = made(owner, Queue("team-a", 60, KUEUE))[-1]
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["labels"][QUEUE_LABEL] == "gpuproof"
    plain = made(owner)[-1]
    assert "suspend" not in plain["spec"]
    assert QUEUE_LABEL not in plain["metadata"]["labels"]


@pytest.mark.parametrize(
    ("owner", "status", "said"),
    [
        (INDEXED_JOB, {"failedIndexes": "1"}, "does not replace the pod of index 1"),
        (JOB_SET, {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "m"}]}, "R: m"),
        (TRAIN_JOB, {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "m"}]}, "R: m"),
        (JOB_SET, {"conditions": [{"type": "Failed", "status": "False", "reason": "R", "message": "m"}]}, ""),
        (VOLCANO_JOB, {"state": {"phase": "Failed", "message": "m"}}, "the Volcano Job is Failed: m"),
        (VOLCANO_JOB, {"state": {"phase": "Restarting"}}, ""),
    ],
)
def test_an_owner_that_makes_no_more_pods_says_so(owner: TrainingOwner, status: Mapping[str, Any], said: str) -> None:
    got = owner.given_up({"status": status})
    assert said in got
    assert bool(got) == bool(said)


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_an_owner_that_is_held_up_says_why(owner: TrainingOwner) -> None:
    suspended = {"conditions": [{"type": "Suspended", "status": "True", "reason": "R", "message": "by whom"}]}
    pending = {"state": {"phase": "Pending", "message": "by whom"}}
    assert "by whom" in owner.held_up({"status": {**suspended, **pending}})
    resumed = {"conditions": [{"type": "Suspended", "status": "False", "reason": "R", "message": "by whom"}]}
    assert owner.held_up({"status": {**resumed, "state": {"phase": "Running", "message": "by whom"}}}) == ""


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"controller": "Jobset"}, "controller", '"Job", "JobSet", "TrainJob", "VolcanoJob"'),
        ({"controller": 1}, "controller", '"JobSet"'),
        ({"queue": ""}, "queue", "ClusterQueue"),
        ({"queue": 3}, "queue", "ClusterQueue"),
        ({"queue": "a", "admitted_within_s": 0}, "admitted_within_s", "more than 0"),
        ({"queue": "a", "admitted_within_s": True}, "admitted_within_s", "more than 0"),
        ({"admitted_within_s": 9}, "admitted_within_s", "a queue beside it"),
    ],
)
def test_words_that_cannot_be_used_are_refused_by_key(given: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(ChoiceError, match=said) as caught:
        read_choice(given, 15)
    assert caught.value.key == key


def test_a_profile_with_such_a_word_is_refused_by_file_and_key(tmp_path: Path) -> None:
    site = tmp_path / "mine.toml"
    words = '[workload.checkpoint_killed_pod]\ncontroller = "PyTorchJob"\n'
    site.write_text(f'schema = 1\nprofile = "site"\nextends = "simulated"\n{words}', encoding="utf-8")
    with pytest.raises(LaunchError) as caught:
        read(Options(profile=site))
    assert "mine.toml: [workload.checkpoint_killed_pod] controller\n" in str(caught.value)
    assert '"VolcanoJob"' in str(caught.value)


def test_where_a_profile_names_nothing_it_is_an_indexed_job_that_is_not_queued() -> None:
    assert read_choice({"pods": 2}, 15) == Choice(INDEXED_JOB, None)
    queued = read_choice({"controller": "TrainJob", "queue": "team-a"}, 15)
    assert queued == Choice(TRAIN_JOB, Queue("team-a", 15, KUEUE))
    assert queued.text == "TrainJob, queued in the Kueue ClusterQueue team-a, for at most 15 s"
    volcano = read_choice({"controller": "VolcanoJob", "queue": "team-a", "admitted_within_s": 9}, 15)
    assert volcano.queue == Queue("team-a", 9, VOLCANO)


class Serving(ToyCluster):
    """A cluster that serves some kinds and no others."""

    served: tuple[Resource, ...] = ()
    status = 404

    def list_objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        if resource in self.served:
            return Listing((), "1")
        raise ClusterError(Reason.HARNESS_ERROR, "the server could not find the requested resource", self.status)


@pytest.mark.parametrize(
    ("given", "served", "said"),
    [
        ({"controller": "JobSet"}, (), "jobset.x-k8s.io/v1alpha2"),
        ({"controller": "TrainJob"}, (TRAIN_JOBS,), "trainingruntimes of trainer.kubeflow.org/v1alpha1"),
        ({"controller": "JobSet", "queue": "a"}, (JOB_SETS,), "kueue.x-k8s.io/v1beta1"),
        ({"controller": "VolcanoJob"}, (), "batch.volcano.sh/v1alpha1"),
        ({"queue": "a"}, (), 'queue = "a" needs: install Kueue'),
    ],
)
def test_a_kind_that_is_not_served_is_named_with_what_to_install(
    given: dict[str, Any], served: tuple[Resource, ...], said: str
) -> None:
    cluster = Serving({})
    cluster.served = served
    with pytest.raises(ClusterError, match="does not serve") as caught:
        refuse_unserved(cluster, "ns", read_choice(given, 15))
    assert said in caught.value.message


def test_what_kubernetes_itself_serves_is_not_asked_for_and_another_refusal_stays_what_it_is() -> None:
    cluster = Serving({})
    refuse_unserved(cluster, "ns", read_choice({}, 15))
    cluster.status = 403
    with pytest.raises(ClusterError, match="could not find"):
        refuse_unserved(cluster, "ns", read_choice({"controller": "JobSet"}, 15))
