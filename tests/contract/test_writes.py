"""Writes: conflicts, the three kinds of patch, server-side apply, finalizers, dry runs, subresources."""

from __future__ import annotations

import pytest

from tests.contract.cluster import Build, Namespace, config_map
from tests.contract.http import Json


def test_creating_twice_is_already_exists(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    answer = ns.post("configmaps", config_map("a"))
    assert (answer.code, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}


def test_a_put_with_a_stale_version_is_a_conflict(ns: Namespace) -> None:
    first = ns.create("configmaps", config_map("a"))
    assert ns.put("configmaps", "a", {**first, "data": {"k": "1"}}).code == 200
    answer = ns.put("configmaps", "a", {**first, "data": {"k": "2"}})
    assert (answer.code, answer.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.json["message"]
    assert ns.read("configmaps", "a")["data"] == {"k": "1"}


def test_a_put_without_a_version_overwrites(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    assert ns.put("configmaps", "a", config_map("a", {"k": "9"})).code == 200
    assert ns.read("configmaps", "a")["data"] == {"k": "9"}


def test_of_writers_with_one_version_only_one_wins(ns: Namespace) -> None:
    first = ns.create("configmaps", config_map("a"))
    codes = [ns.put("configmaps", "a", {**first, "data": {"k": str(number)}}).code for number in range(5)]
    assert sorted(codes) == [200, 409, 409, 409, 409]


def test_a_merge_patch_with_a_stale_version_is_a_conflict(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    answer = ns.patch("configmaps", "a", {"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}})
    assert (answer.code, answer.json["reason"]) == (409, "Conflict")


def test_a_delete_with_a_wrong_precondition_is_a_conflict(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}
    assert ns.delete("configmaps", "a", body).code == 409
    assert ns.get("configmaps", "a").code == 200


def test_a_json_patch_is_done_whole_or_not_at_all(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a", {"k": "1", "l": "2"}))
    failing = [{"op": "remove", "path": "/data/l"}, {"op": "test", "path": "/data/k", "value": "other"}]
    answer = ns.patch("configmaps", "a", failing, "json")
    assert (answer.code, answer.json["reason"]) == (422, "Invalid")
    assert ns.read("configmaps", "a")["data"] == {"k": "1", "l": "2"}
    good = [{"op": "test", "path": "/data/k", "value": "1"}, {"op": "replace", "path": "/data/l", "value": "3"}]
    assert ns.patch("configmaps", "a", good, "json").json["data"] == {"k": "1", "l": "3"}


@pytest.mark.parametrize("patch", [[{"op": "remove", "path": "/data/no"}], [{"op": "nonsense", "path": "/x"}]])
def test_a_json_patch_that_cannot_be_done_is_422(ns: Namespace, patch: Json) -> None:
    ns.create("configmaps", config_map("a", {"k": "1"}))
    assert ns.patch("configmaps", "a", patch, "json").code == 422


def test_null_in_a_merge_patch_removes(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a", {"k": "1", "l": "2"}))
    assert ns.patch("configmaps", "a", {"data": {"k": None, "n": "3"}}).json["data"] == {"l": "2", "n": "3"}


def test_a_strategic_patch_merges_lists_by_their_key(ns: Namespace, build: Build) -> None:
    job = build.job(
        "j", "true", suspend=True, spec={"containers": [build.container("c", "true"), build.container("d", "true")]}
    )
    ns.create("jobs", job)
    patch = {"metadata": {"finalizers": ["example.com/one"]}}
    assert ns.patch("jobs", "j", patch, "strategic").code == 200
    more = ns.patch("jobs", "j", {"metadata": {"finalizers": ["example.com/two"]}}, "strategic").json
    assert sorted(more["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one", "example.com/two"]}}
    assert "finalizers" not in ns.patch("jobs", "j", less, "strategic").json["metadata"]


def test_a_strategic_patch_of_a_condition_goes_by_type(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true", nodeSelector={"no": "such"}))
    for status in ("False", "True"):
        body = {"status": {"conditions": [{"type": "example.com/c", "status": status}]}}
        assert ns.patch("pods", "p", body, "strategic", "status").code == 200
    found = [c["status"] for c in ns.read("pods", "p")["status"]["conditions"] if c["type"] == "example.com/c"]
    assert found == ["True"]


def test_status_in_a_patch_of_the_object_itself_is_ignored(ns: Namespace, build: Build) -> None:
    ns.create("jobs", build.job("j", "true", suspend=True))
    answer = ns.patch("jobs", "j", {"status": {"succeeded": 9}})
    assert answer.code == 200
    assert "succeeded" not in answer.json["status"]


def test_apply_creates_then_changes_nothing_when_said_again(ns: Namespace) -> None:
    body = config_map("a", {"k": "1"})
    first = ns.patch("configmaps", "a", body, "apply", query={"fieldManager": "one"})
    assert first.code == 201
    again = ns.patch("configmaps", "a", body, "apply", query={"fieldManager": "one"})
    assert (again.code, again.json["metadata"]["resourceVersion"]) == (200, first.json["metadata"]["resourceVersion"])


def test_apply_of_anothers_field_is_a_conflict_until_forced(ns: Namespace) -> None:
    ns.patch("configmaps", "a", config_map("a", {"k": "1"}), "apply", query={"fieldManager": "one"})
    other = config_map("a", {"k": "2"})
    answer = ns.patch("configmaps", "a", other, "apply", query={"fieldManager": "two"})
    assert (answer.code, answer.json["reason"]) == (409, "Conflict")
    assert answer.json["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert answer.json["details"]["causes"][0]["field"] == ".data.k"
    forced = ns.patch("configmaps", "a", other, "apply", query={"fieldManager": "two", "force": "true"})
    assert forced.json["data"] == {"k": "2"}


def test_apply_removes_what_its_manager_no_longer_says(ns: Namespace) -> None:
    ns.patch("configmaps", "a", config_map("a", {"k": "1", "l": "2"}), "apply", query={"fieldManager": "one"})
    ns.patch("configmaps", "a", {"data": {"theirs": "3"}})
    left = ns.patch("configmaps", "a", config_map("a", {"k": "1"}), "apply", query={"fieldManager": "one"})
    assert left.json["data"] == {"k": "1", "theirs": "3"}


def test_apply_needs_a_manager(ns: Namespace) -> None:
    answer = ns.patch("configmaps", "a", config_map("a"), "apply")
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "fieldManager"


def test_a_finalizer_holds_an_object_and_its_removal_lets_it_go(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a", finalizers=["example.com/hold"]))
    assert ns.delete("configmaps", "a").code == 200
    held = ns.read("configmaps", "a")
    assert held["metadata"]["deletionTimestamp"]
    assert ns.patch("configmaps", "a", {"data": {"still": "writable"}}).code == 200
    assert ns.patch("configmaps", "a", {"metadata": {"finalizers": None}}).code == 200
    assert ns.get("configmaps", "a").code == 404


def test_no_finalizer_may_be_added_to_what_is_being_deleted(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a", finalizers=["example.com/hold"]))
    ns.delete("configmaps", "a")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = ns.patch("configmaps", "a", more)
    assert answer.code == 422
    assert "no new finalizers can be added" in answer.json["message"]
    ns.patch("configmaps", "a", {"metadata": {"finalizers": None}})


def test_generate_name_makes_different_names(ns: Namespace) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    names = {ns.create("configmaps", body)["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


def test_a_dry_run_answers_and_stores_nothing(ns: Namespace, build: Build) -> None:
    answer = ns.post("pods", build.pod("p", "true"), query={"dryRun": "All"})
    assert answer.code == 201
    assert answer.json["spec"]["schedulerName"] == "default-scheduler"
    assert ns.get("pods", "p").code == 404


def test_an_unknown_field_is_a_warning_or_with_strict_a_refusal(ns: Namespace) -> None:
    body = {**config_map("a"), "nonsense": 1}
    answer = ns.post("configmaps", body)
    assert answer.code == 201
    assert "unknown field" in answer.headers["Warning"]
    strict = ns.post("configmaps", {**body, "metadata": {"name": "b"}}, query={"fieldValidation": "Strict"})
    assert (strict.code, strict.json["reason"]) == (400, "BadRequest")


def test_generation_rises_with_the_spec_only(ns: Namespace, build: Build) -> None:
    made = ns.create("jobs", build.job("j", "true", suspend=True))
    labelled = ns.patch("jobs", "j", {"metadata": {"labels": {"a": "b"}}}).json
    assert labelled["metadata"]["generation"] == made["metadata"]["generation"]
    changed = ns.patch("jobs", "j", {"spec": {"parallelism": 0}}).json
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1


def test_uids_differ_between_lives_of_one_name(ns: Namespace) -> None:
    first = ns.create("configmaps", config_map("a"))
    ns.delete("configmaps", "a")
    second = ns.create("configmaps", config_map("a"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": first["metadata"]["uid"]}}
    assert ns.delete("configmaps", "a", body).code == 409
