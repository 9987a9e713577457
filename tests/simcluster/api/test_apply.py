"""Server-side apply: ownership, conflicts, letting go."""

from __future__ import annotations

import json
from typing import Any

from simcluster.api.server import ApiServer

from .conftest import Answer, Http, container, pod

MAPS = "/api/v1/namespaces/default/configmaps"


async def apply(http: Http, manager: str, data: dict[str, str], query: str = "") -> Answer:
    """Apply a ConfigMap's data as a manager."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": data}
    path = f"{MAPS}/ssa?fieldManager={manager}{query}"
    return await http("PATCH", path, json.dumps(body), "application/apply-patch+yaml")


async def test_applying_the_same_again_changes_nothing(http: Http) -> None:
    first = await apply(http, "one", {"k": "1"})
    again = await apply(http, "one", {"k": "1"})
    assert (first.status, again.status) == (201, 200)
    assert first.json["metadata"]["resourceVersion"] == again.json["metadata"]["resourceVersion"]


async def test_two_managers_conflict_on_one_value(http: Http) -> None:
    await apply(http, "one", {"k": "1"})
    refused = await apply(http, "two", {"k": "2"})
    assert refused.status == 409
    assert refused.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    forced = await apply(http, "two", {"k": "2"}, "&force=true")
    assert forced.json["data"] == {"k": "2"}


async def test_two_managers_may_agree_and_a_field_lives_until_its_last_owner_lets_go(http: Http) -> None:
    await apply(http, "one", {"k": "1", "mine": "x"})
    assert (await apply(http, "two", {"k": "1"})).status == 200
    kept = await apply(http, "one", {})
    assert kept.json["data"] == {"k": "1"}
    assert (await apply(http, "two", {})).json.get("data", {}) == {}


async def test_a_plain_update_takes_its_fields_over(api: ApiServer, http: Http) -> None:
    await apply(http, "one", {"k": "1"})
    await http("PATCH", f"{MAPS}/ssa", {"data": {"k": "9"}}, "application/merge-patch+json", **{"User-Agent": "tool/1"})
    refused = await apply(http, "one", {"k": "1"})
    assert refused.json["message"] == 'Apply failed with 1 conflict: conflict with "tool" using v1: .data.k'


async def test_list_items_are_owned_by_their_key(http: Http) -> None:
    def deployment(*names: str) -> Any:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container(name) for name in names]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    async def send(manager: str, *names: str) -> list[str]:
        path = f"/apis/apps/v1/namespaces/default/deployments/d?fieldManager={manager}"
        answer = await http("PATCH", path, json.dumps(deployment(*names)), "application/apply-patch+yaml")
        assert answer.status < 300, answer.text
        return [one["name"] for one in answer.json["spec"]["template"]["spec"]["containers"]]

    assert await send("one", "a") == ["a"]
    assert sorted(await send("two", "b")) == ["a", "b"]
    assert await send("one", "b") == ["b"]


async def test_dry_run_stores_nothing(api: ApiServer, http: Http) -> None:
    made = await http("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod("dry"))
    assert made.status == 201
    assert (await http("GET", "/api/v1/namespaces/default/pods/dry")).status == 404
