"""What is rendered: nothing undefined, nothing injected, the sweep's promises, the patch last."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuproof.expectation import Rdma, Storage
from gpuproof.manifests import (
    ORDER_ANNOTATION,
    ManifestError,
    PodSettings,
    Renderer,
    SweepJob,
    TrainingJob,
    check_pod_settings,
    escape,
    shorter_selection,
    source_files,
)
from gpuproof.pod_shape import PodShape
from gpuproof.podpatch import PatchError, merge, patch_template


def renderer(**pod: Any) -> Renderer:
    settings = PodSettings.from_mapping({"image": "registry.example/team:1"} | pod)
    return Renderer("r1", "gpuproof-r1", {"node-pool": "a"}, "nvidia.com/gpu", settings)


def job(**changed: Any) -> SweepJob:
    fields: dict[str, Any] = {
        "name": "cuda-runtime-1",
        "sweep": "cuda_runtime-1",
        "check": "cuda_runtime",
        "workload": "cuda_runtime",
        "pods": 4,
        "gpus": 2,
        "world_size": 1,
        "active_deadline_s": 600,
    }
    return SweepJob(**(fields | changed))


def containers(rendered: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in rendered["spec"]["template"]["spec"]["containers"]}


def env(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def test_the_namespace_carries_the_labels_that_clean_looks_for() -> None:
    made = renderer().namespace_object()
    assert made["metadata"]["name"] == "gpuproof-r1"
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "gpuproof", "gpuproof.dev/run": "r1"}


def test_the_sweep_job() -> None:
    spec = renderer().sweep(job())["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (4, 4, "Indexed")
    assert (spec["backoffLimitPerIndex"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert "maxFailedIndexes" not in spec
    assert spec["activeDeadlineSeconds"] == 600
    assert spec["ttlSecondsAfterFinished"] > 0
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"node-pool": "a"}
    assert pod["restartPolicy"] == "Never"
    (rule,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_a_program_that_needs_no_gpu_asks_for_none() -> None:
    measure = containers(renderer().sweep(job(gpus=0, shape=PodShape(gpus="none"))))["measure"]
    assert "resources" not in measure


def test_rdma_and_claims_go_to_the_pod_whose_program_asks_for_them() -> None:
    shape = PodShape(rdma=True, claims=("shared",))
    fabric = Rdma("rdma/ib", 2, 400, "InfiniBand")
    made = replace(renderer(), rdma=fabric).sweep(job(shape=shape))
    measure = containers(made)["measure"]
    assert measure["resources"]["limits"] == {"nvidia.com/gpu": "2", "rdma/ib": "2"}
    (mount,) = [m for m in measure["volumeMounts"] if m["mountPath"] == "/gpuproof/claims/shared"]
    (volume,) = [v for v in made["spec"]["template"]["spec"]["volumes"] if v["name"] == mount["name"]]
    assert volume["persistentVolumeClaim"] == {"claimName": "claim-shared"}
    plain = replace(renderer(), rdma=fabric).sweep(job())
    assert containers(plain)["measure"]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_a_claim_asks_for_what_the_profile_says() -> None:
    made = replace(renderer(), storage={"shared": Storage("shared", "fast-rwx", "64Gi", "ReadWriteMany")})
    claim = made.claim("shared")
    assert claim["metadata"]["name"] == "claim-shared"
    assert claim["metadata"]["labels"]["gpuproof.dev/run"] == "r1"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast-rwx",
        "resources": {"requests": {"storage": "64Gi"}},
    }
    with pytest.raises(ManifestError, match=r"no \[storage\.scratch\] in the profile: there is shared"):
        made.claim("scratch")


def test_further_containers_run_the_same_program_without_a_gpu_and_share_a_folder_with_it() -> None:
    made = renderer().sweep(job(gpus=1, shape=PodShape(gpus=1, containers=("bystander",), tempted=True)))
    found = containers(made)
    assert found["bystander"]["command"] == found["measure"]["command"]
    assert found["measure"]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "resources" not in found["bystander"]
    assert env(found["bystander"])["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert env(found["bystander"])["GPUPROOF_CONTAINER"] == "bystander"
    # A container that asks for GPUs must get what its device plugin says, and not what a pod writes over it.
    assert "NVIDIA_VISIBLE_DEVICES" not in env(found["measure"])
    for each in ("measure", "bystander"):
        assert "/gpuproof/shared" in {mount["mountPath"] for mount in found[each]["volumeMounts"]}


def test_a_pod_without_gpus_is_tempted_where_its_program_says_so() -> None:
    tempted = renderer().sweep(job(gpus=0, shape=PodShape(gpus="none", tempted=True)))
    assert env(containers(tempted)["measure"])["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert env(containers(tempted)["hold"])["NVIDIA_VISIBLE_DEVICES"] == "void"
    plain = containers(renderer().sweep(job(gpus=0, shape=PodShape(gpus="none"))))
    assert "NVIDIA_VISIBLE_DEVICES" not in env(plain["measure"])


@pytest.mark.parametrize(
    ("patch", "key"),
    [
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}, "NVIDIA_VISIBLE_DEVICES"),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "resources.limits"),
        ({"command": ["true"]}, "command"),
    ],
)
def test_a_patch_must_not_change_what_a_further_container_is_there_for(patch: dict[str, Any], key: str) -> None:
    shaped = PodShape(gpus=1, containers=("bystander",), tempted=True)
    with pytest.raises(ManifestError, match=key):
        renderer(containers=[{"name": "bystander", **patch}]).sweep(job(gpus=1, shape=shaped))


def test_pods_of_two_seats_may_share_a_node_and_others_may_not() -> None:
    def rule(shape: PodShape) -> tuple[dict[str, str], dict[str, str]]:
        template = renderer().sweep(job(shape=shape))["spec"]["template"]
        (term,) = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return term["labelSelector"]["matchLabels"], template["metadata"]["labels"]

    (kept, its), (second, own), (other, plain) = (
        rule(PodShape(kept=True)), rule(PodShape(beside=True)), rule(PodShape()),
    )  # fmt: skip
    assert kept.items() <= its.items()
    assert second.items() <= own.items()
    assert not kept.items() <= own.items()
    assert not second.items() <= its.items()
    assert other.items() <= its.items()
    assert other.items() <= own.items()
    assert other.items() <= plain.items()


def test_pods_that_stay_keep_nobody_off_their_node_and_are_told_by_a_file() -> None:
    template = renderer().sweep(job(shape=PodShape("none", stays=True)))["spec"]["template"]
    others = renderer().sweep(job())["spec"]["template"]

    def kept_off(pod: dict[str, Any]) -> dict[str, str]:
        (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        found: dict[str, str] = term["labelSelector"]["matchLabels"]
        return found

    labels, theirs = template["metadata"]["labels"], others["metadata"]["labels"]
    assert kept_off(template).items() <= labels.items()
    assert not kept_off(others).items() <= labels.items()
    assert kept_off(others).items() <= theirs.items()
    (told,) = (volume for volume in template["spec"]["volumes"] if volume["name"] == "gpuproof-told")
    (item,) = told["downwardAPI"]["items"]
    assert item == {"path": "word", "fieldRef": {"fieldPath": f"metadata.annotations['{ORDER_ANNOTATION}']"}}
    assert not [volume for volume in others["spec"]["volumes"] if volume["name"] == "gpuproof-told"]


def test_an_image_of_its_own_where_the_program_says_so() -> None:
    params = {"image": "r.example/next:1"}
    images = [
        {
            one["image"]
            for one in renderer().sweep(job(shape=shape, params=given))["spec"]["template"]["spec"]["containers"]
        }
        for shape, given in ((PodShape(image=True), params), (PodShape(image=True), {}), (PodShape(), params))
    ]
    assert images[0] == {"r.example/next:1"}
    assert images[1] == images[2] != images[0]


def test_scratch_is_a_fresh_directory_on_the_node() -> None:
    made = renderer().sweep(job(shape=PodShape(scratch=True)))
    (volume,) = [v for v in made["spec"]["template"]["spec"]["volumes"] if v["name"] == "gpuproof-scratch"]
    assert volume == {"name": "gpuproof-scratch", "emptyDir": {}}


def test_a_patch_must_not_change_how_many_rdma_devices_a_pod_gets() -> None:
    entry = {"name": "measure", "resources": {"limits": {"rdma/ib": "1"}}}
    patched = replace(renderer(containers=[entry]), rdma=Rdma("rdma/ib", 2, 400, "InfiniBand"))
    with pytest.raises(ManifestError, match=r"resources\.limits\.rdma/ib"):
        patched.sweep(job(shape=PodShape(rdma=True)))


def test_measure_owns_the_gpus_and_hold_sees_none() -> None:
    found = containers(renderer().sweep(job()))
    assert found["measure"]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert "resources" not in found["hold"]
    assert env(found["hold"])["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "exit 143" in found["hold"]["command"][-1]


def test_no_gpu_asked_no_gpu_requested() -> None:
    assert "resources" not in containers(renderer().sweep(job(gpus=0)))["measure"]


def test_who_the_pod_is_comes_from_kubernetes() -> None:
    found = env(containers(renderer().sweep(job(params={"n": 512, "text": "a $(HOME) $$"})))["measure"])
    assert found["GPUPROOF_NODE"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert found["GPUPROOF_POD"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert found["GPUPROOF_RUN_ID"] == "r1"
    assert found["GPUPROOF_WORLD_SIZE"] == "1"
    assert json.loads(found["GPUPROOF_PARAMS"].replace("$$", "$")) == {"n": 512, "text": "a $(HOME) $$"}


@pytest.mark.parametrize(("only", "exclude", "operator"), [(("n1",), (), "In"), ((), ("n2", "n3"), "NotIn")])
def test_selection_of_nodes(only: tuple[str, ...], exclude: tuple[str, ...], operator: str) -> None:
    pod = renderer().sweep(job(only=only, exclude=exclude))["spec"]["template"]["spec"]
    rule = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = rule["nodeSelectorTerms"][0]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == (operator, list(only or exclude))


def test_without_a_selection_the_pool_is_enough() -> None:
    assert "nodeAffinity" not in renderer().sweep(job())["spec"]["template"]["spec"]["affinity"]


def test_both_selections_are_refused() -> None:
    with pytest.raises(ManifestError, match="alternatives"):
        renderer().sweep(job(only=("a",), exclude=("b",)))


def test_the_shorter_selection() -> None:
    pool = [f"n{i}" for i in range(10)]
    assert shorter_selection(pool, pool) == ((), ())
    assert shorter_selection(pool, pool[:9]) == ((), ("n9",))
    assert shorter_selection(pool, pool[:2]) == (("n0", "n1"), ())


def test_sources_hold_what_the_workload_imports_and_nothing_else() -> None:
    made = renderer().sources("gpu_inventory")
    assert {"__init__.py", "contract.py", "gpu_inventory.py"} <= set(made["data"])
    mount = containers(renderer().sweep(job(workload="gpu_inventory")))["measure"]
    assert mount["command"][1:3] == ["-u", "-c"]
    assert "run_module('workloads.gpu_inventory', run_name='__main__')" in mount["command"][3]
    assert "PYTHONPATH" not in {entry["name"] for entry in mount["env"]}
    (volume,) = renderer().sweep(job(workload="gpu_inventory"))["spec"]["template"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    assert mount["volumeMounts"] == [{"name": volume["name"], "mountPath": "/gpuproof/workloads", "readOnly": True}]


def test_sources_follow_imports(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from workloads.b import x\nfrom workloads import c\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("import workloads.d\nimport json\n", encoding="utf-8")
    for name in "cde":
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    assert list(source_files("a", [tmp_path])) == ["a.py", "b.py", "c.py", "d.py"]


@pytest.mark.parametrize("name", ["absent", "../contract", "", "A"])
def test_unknown_workload(name: str) -> None:
    with pytest.raises(ManifestError, match="no workload"):
        source_files(name)


@given(st.text())
def test_an_escaped_value_arrives_as_it_is(value: str) -> None:
    assert "$(" not in escape(value).replace("$$", "")
    assert escape(value).replace("$$", "$") == value


@settings(max_examples=25, deadline=None)
@example("\U0001f600 \\ud83d\\ude00 \x7f \u2028", {})
@given(st.text(max_size=30), st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3))
def test_no_value_breaks_out_of_its_place(text: str, pool: dict[str, str]) -> None:
    made = Renderer(text, text, pool, "nvidia.com/gpu", PodSettings(image=text, python=text)).sweep(job(check=text))
    assert made["spec"]["template"]["spec"]["nodeSelector"] == pool
    assert containers(made)["measure"]["image"] == text
    assert made["spec"]["completions"] == 4


def test_the_profiles_patch_comes_last() -> None:
    patch = {
        "runtimeClassName": "nvidia",
        "containers": [
            {"name": "measure", "resources": {"limits": {"memory": "8Gi"}}},
            {"name": "proxy", "image": "p"},
        ],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    made = renderer(env={"NCCL_DEBUG": "$HOME"}, python="/opt/python", patch=patch).sweep(job())
    pod = made["spec"]["template"]["spec"]
    found = containers(made)
    assert pod["runtimeClassName"] == "nvidia"
    assert found["measure"]["resources"]["limits"] == {"nvidia.com/gpu": "2", "memory": "8Gi"}
    assert found["measure"]["command"][0] == "/opt/python"
    assert env(found["measure"])["NCCL_DEBUG"] == "$$HOME"
    assert list(found) == ["measure", "hold", "proxy"]
    assert [volume["name"] for volume in pod["volumes"]] == ["gpuproof-sources", "shm"]


def test_a_patch_over_the_whole_template() -> None:
    patch = {"metadata": {"annotations": {"k": "v"}}, "spec": {"hostNetwork": True}}
    template = renderer(patch=patch).sweep(job())["spec"]["template"]
    assert template["metadata"]["annotations"] == {"k": "v"}
    assert "gpuproof.dev/run" in template["metadata"]["labels"]
    assert template["spec"]["hostNetwork"] is True


def test_an_image_is_needed() -> None:
    with pytest.raises(ManifestError, match="image"):
        PodSettings.from_mapping({})


def test_strategic_merge() -> None:
    base = {"a": {"x": 1, "y": 2}, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["1"]}
    patch = {
        "a": {"x": None, "z": 3},
        "env": [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}, {"name": "C", "value": "4"}],
        "args": ["2"],
    }
    merged = merge(base, patch)
    assert merged == {
        "a": {"y": 2, "z": 3},
        "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
        "args": ["2"],
    }
    assert base["a"] == {"x": 1, "y": 2}
    assert merge(base, {"a": {"$patch": "replace", "only": 1}})["a"] == {"only": 1}


@pytest.mark.parametrize("entry", ["text", {"image": "x"}, 3])
def test_a_list_entry_without_its_merge_key_is_refused(entry: Any) -> None:
    with pytest.raises(PatchError, match=r"patch\.spec\.containers.*'name'"):
        patch_template({"spec": {}}, {"containers": [entry]})


def measure(**changed: Any) -> dict[str, Any]:
    return {"patch": {"containers": [{"name": "measure"} | changed]}}


AFFINITY: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": []}
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        (measure(command=["python3", "-c", "print(1)"]), r"containers\[measure\].command"),
        (measure(command=None), r"containers\[measure\].command"),
        (measure(args=["x"]), r"containers\[measure\].args"),
        (measure(env=[{"name": "GPUPROOF_PARAMS", "value": "{}"}]), r"containers\[measure\].env GPUPROOF_"),
        (measure(env=[{"name": "GPUPROOF_NODE", "$patch": "delete"}]), "GPUPROOF_"),
        (measure(env=[{"name": "GPUPROOF_NEW", "value": "x"}]), "GPUPROOF_"),
        ({"env": {"GPUPROOF_PARAMS": "{}"}}, r"\[pod.env\] GPUPROOF_PARAMS"),
        (measure(volumeMounts=[{"name": "mine", "mountPath": "/gpuproof"}]), "/gpuproof"),
        (measure(volumeMounts=[{"name": "mine", "mountPath": "/gpuproof/workloads"}]), "/gpuproof"),
        (measure(volumeMounts=[{"name": "mine", "mountPath": "/gpuproof//workloads/contract.py"}]), "/gpuproof"),
        (measure(volumeMounts=[{"name": "mine", "mountPath": "/x/../gpuproof/"}]), "/gpuproof"),
        (measure(volumeMounts=[{"name": "mine", "mountPath": "/dev/termination-log"}]), "termination-log"),
        (measure(volumeMounts=[{"mountPath": "/gpuproof/workloads", "$patch": "delete"}]), "/gpuproof"),
        (measure(terminationMessagePath="/shared/x"), "terminationMessagePath"),
        (measure(terminationMessagePolicy="FallbackToLogsOnError"), "terminationMessagePolicy"),
        (measure(resources={"limits": {GPU: "1"}}), r"resources.limits.nvidia.com/gpu"),
        (measure(resources={"requests": {GPU: "1"}}), r"resources.requests.nvidia.com/gpu"),
        (measure(resources={"$patch": "replace", "limits": {"cpu": "1"}}), r"resources.limits.nvidia.com/gpu"),
        (measure(**{"$patch": "delete"}), r"containers\[measure\]"),
        ({"patch": {"containers": [{"name": "hold", "command": ["true"]}]}}, r"containers\[hold\].command"),
        ({"patch": {"containers": [{"name": "hold", "$patch": "delete"}]}}, r"containers\[hold\].command"),
        ({"patch": {"containers": None}}, r"containers\[measure\].command"),
        ({"patch": {"volumes": [{"name": "gpuproof-sources", "emptyDir": {}}]}}, "volumes.gpuproof-sources"),
        ({"patch": {"volumes": [{"name": "gpuproof-sources", "$patch": "delete"}]}}, "volumes.gpuproof-sources"),
        ({"patch": {"metadata": {"labels": {"gpuproof.dev/run": "x"}}}}, "metadata.labels gpuproof.dev/run"),
        ({"patch": {"metadata": None}}, "metadata.labels"),
        ({"patch": {"affinity": {"podAntiAffinity": AFFINITY}}}, "affinity.podAntiAffinity"),
        ({"patch": {"affinity": {"nodeAffinity": AFFINITY}}}, "affinity.nodeAffinity"),
        ({"patch": {"affinity": None}}, "affinity"),
        ({"patch": {"nodeSelector": {"node-pool": "b"}}}, "nodeSelector node-pool"),
        ({"nodeSelector": {"$patch": "replace", "x": "y"}}, "nodeSelector node-pool"),
        ({"patch": {"nodeName": "gpu-01"}}, "nodeName"),
        ({"patch": {"spec": None}}, r"containers\[measure\].command"),
        ({"patch": {"spec": 3}}, r"containers\[measure\].command"),
        ({"patch": {"containers": [{"image": "x"}]}}, "containers.*'name'"),
        ({"patch": {"containers": [{"name": "measure", "env": "x"}]}}, "GPUPROOF_"),
        ({}, "image"),
    ],
)
def test_a_profile_cannot_replace_the_measurement(pod: dict[str, Any], key: str) -> None:
    settings = pod if not pod else {"image": "i"} | pod
    with pytest.raises(ManifestError, match=key):
        check_pod_settings(settings, pool={"node-pool": "a"})
    if pod:
        with pytest.raises(ManifestError, match=key):
            renderer(**pod).sweep(job(only=("n1",), params={"x": 1}))


@pytest.mark.parametrize(
    "pod",
    [
        {"env": {"NCCL_DEBUG": "INFO"}},
        {"patch": {"containers": [{"name": "sidecar", "image": "s", "command": ["run"]}]}},
        measure(env=[{"name": "LD_PRELOAD", "value": ""}], image="other", imagePullPolicy="Always"),
        measure(resources={"limits": {"memory": "8Gi", "hugepages-2Mi": "1Gi", "rdma/ib": "8"}}),
        measure(securityContext={"privileged": True}, volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
        {"patch": {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}},
        {"runtimeClassName": "nvidia", "tolerations": [], "hostNetwork": True, "priorityClassName": "high"},
        {"patch": {"nodeSelector": {"zone": "z"}, "metadata": {"labels": {"team": "t"}, "annotations": {"a": "b"}}}},
        {"patch": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}},
        {"patch": {"initContainers": [{"name": "init", "image": "i"}], "imagePullSecrets": [{"name": "s"}]}},
    ],
)
def test_everything_else_of_the_pod_is_the_profiles(pod: dict[str, Any]) -> None:
    check_pod_settings({"image": "i"} | pod, pool={"node-pool": "a"})
    assert renderer(**pod).sweep(job())["kind"] == "Job"


def test_a_training_has_a_service_of_its_name_and_replaces_pods_that_have_ended() -> None:
    shape = PodShape(rdma=True, claims=("checkpoints",))
    made = replace(renderer(), rdma=Rdma("rdma/ib", 2, 400, "InfiniBand"))
    wanted = TrainingJob(
        "killed-1", "checkpoint_x", "training", 2, 8, 20, 30, 900, {"steps": 4}, excluded=("a", "b"), shape=shape
    )
    service, rendered = made.training(wanted)
    template = rendered["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert (service["metadata"]["name"], service["spec"]["publishNotReadyAddresses"]) == ("killed-1", True)
    assert (rendered["spec"]["backoffLimitPerIndex"], rendered["spec"]["podReplacementPolicy"]) == (20, "Failed")
    assert template["spec"]["subdomain"] == "killed-1"
    assert env(containers(rendered)["measure"])["GPUPROOF_MASTER"] == "killed-1-0.killed-1"
    assert json.loads(env(containers(rendered)["measure"])["GPUPROOF_PARAMS"]) == {"steps": 4}
    assert containers(rendered)["measure"]["resources"]["limits"] == {"nvidia.com/gpu": "8", "rdma/ib": "2"}
    (mount,) = [m for m in containers(rendered)["measure"]["volumeMounts"] if "claims" in m["mountPath"]]
    assert mount["mountPath"] == "/gpuproof/claims/checkpoints"
    terms = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["a", "b"]
    _, anywhere = made.training(replace(wanted, excluded=()))
    assert "nodeAffinity" not in anywhere["spec"]["template"]["spec"]["affinity"]
