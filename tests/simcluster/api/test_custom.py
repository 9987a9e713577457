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
    size = {"type": "string", "enum": ["small", "big"]}
    frozen = {"type": "integer", "minimum": 1, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    item = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 3}}}
    items = {"type": "array", "items": item, "x-kubernetes-list-map-keys": ["name"], "maxItems": 2}
    properties: dict[str, Any] = {"size": size, "count": {**frozen, "default": 1}, "parts": items}
    properties["amount"] = {"x-kubernetes-int-or-string": True}
    properties["free"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec_schema = {"type": "object", "properties": properties}
    status_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec_schema, "status": status_schema}}}
    column = {"name": "Size", "type": "string", "jsonPath": ".spec.size"}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": schema}
    done = {"name": "Done", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Done")].status'}
    version |= {"subresources": {"status": {}}, "additionalPrinterColumns": [column, done]}
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
    assert (await http("GET", THINGS, Accept=accept)).json["rows"][0]["cells"] == ["t", "small", ""]
    done = {"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Done", "status": "True"}]}}
    await http("PATCH", f"{THINGS}/t/status", done, "application/merge-patch+json")
    assert (await http("GET", THINGS, Accept=accept)).json["rows"][0]["cells"] == ["t", "small", "True"]
    assert (await http("GET", "/openapi/v3/apis/example.com/v1")).status == 200
    await http("DELETE", f"{CRDS}/things.example.com")
    assert (await http("GET", THINGS)).status == 404


REFUSED: list[tuple[Object, str]] = [
    ({"size": 3}, 'spec.size in body must be of type string: "integer"'),
    ({"size": "huge"}, 'spec.size: Unsupported value: "huge": supported values: "small", "big"'),
    ({"count": 0}, "spec.count in body should be greater than or equal to 1"),
    ({"count": True}, "must be of type integer"),
    ({"amount": []}, "must be of type integer,string"),
    ({"parts": [{}]}, "spec.parts[0].name: Required value"),
    ({"parts": [{"name": "long"}]}, "spec.parts[0].name in body should have at most 3 chars long"),
    ({"parts": [{"name": "a"}, {"name": "a"}]}, 'spec.parts[1]: Duplicate value: {"name":"a"}'),
    ({"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, "at most 2 items"),
]


async def test_a_custom_object_is_held_against_the_schema_of_its_definition(http: Http) -> None:
    await http("POST", CRDS, definition())
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    spec = {"sise": "big", "size": None, "amount": "1Gi", "free": {"any": [1]}, "parts": [{"name": "a", "x": 1}]}
    strict = await http("POST", f"{THINGS}?fieldValidation=Strict", {**thing, "spec": spec})
    assert strict.status == 400
    assert 'unknown field "spec.sise", unknown field "spec.parts[0].x"' in strict.json["message"]
    made = await http("POST", THINGS, {**thing, "spec": spec})
    assert made.json["spec"] == {"amount": "1Gi", "free": {"any": [1]}, "parts": [{"name": "a"}], "count": 1}
    assert "spec.sise" in made.headers["Warning"]
    for wrong, told in REFUSED:
        refused = await http("POST", THINGS, {**thing, "spec": wrong})
        assert refused.status == 422
        assert told in refused.json["message"]
    changed = await http("PATCH", f"{THINGS}/t", {"spec": {"count": 2}}, "application/merge-patch+json")
    assert (changed.status, "failed rule: self == oldSelf" in changed.json["message"]) == (422, True)
