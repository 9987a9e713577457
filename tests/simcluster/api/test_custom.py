"""CustomResourceDefinitions add kinds at run time and take them away again."""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object

from .conftest import Http

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def definition() -> Object:
    """A namespaced kind with a status and a printed column."""
    names = {"plural": "things", "kind": "Thing", "shortNames": ["th"]}
    spec_schema = {"type": "object", "properties": {"size": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec_schema}}}
    column = {"name": "Size", "type": "string", "jsonPath": ".spec.size"}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": schema}
    version |= {"subresources": {"status": {}}, "additionalPrinterColumns": [column]}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": spec,
    }


async def test_a_custom_kind_lives_as_long_as_its_definition(http: Http) -> None:
    assert (await http("GET", THINGS)).text == "404 page not found\n"
    await http("POST", CRDS, definition())
    established = (await http("GET", f"{CRDS}/things.example.com")).json["status"]["conditions"]
    assert {condition["type"]: condition["status"] for condition in established}["Established"] == "True"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": "big"}}
    made = await http("POST", THINGS, {**thing, "status": {"x": 1}})
    assert made.status == 201
    assert "status" not in made.json
    patched = await http("PATCH", f"{THINGS}/t", {"spec": {"size": "small"}}, "application/merge-patch+json")
    assert patched.json["metadata"]["generation"] == 2
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert (await http("GET", THINGS, Accept=accept)).json["rows"][0]["cells"] == ["t", "small"]
    assert (await http("GET", "/openapi/v3/apis/example.com/v1")).status == 200
    await http("DELETE", f"{CRDS}/things.example.com")
    assert (await http("GET", THINGS)).status == 404
