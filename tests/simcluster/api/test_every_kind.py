"""Whatever is sent about whatever kind, the answer is an object or a refusal, never a defect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcluster.api.kinds import BUILT_IN, Kind
from simcluster.api.port import ApiError, KubeletRegistry, Object
from simcluster.api.schema.check import check
from simcluster.api.server import ApiServer
from simcluster.api.wire.call import decode

from .conftest import Http

STORED = [kind for kind in BUILT_IN if "list" in kind.verbs]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def path(kind: Kind) -> str:
    """Where objects of a kind are listed, in the default namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.name)
async def test_an_object_that_says_nothing_is_stored_or_refused(http: Http, kind: Kind) -> None:
    made = await http("POST", path(kind), {"metadata": {"name": "x"}})
    assert made.status in (201, 422), made.text
    await http("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "other"}})
    shown = await http("GET", path(kind), Accept=TABLE)
    assert shown.status == 200, shown.text
    assert all(len(row["cells"]) == len(shown.json["columnDefinitions"]) for row in shown.json["rows"])
    if made.status == 201:
        assert (await http("GET", f"{path(kind)}/x", Accept="application/yaml")).status == 200
        put = await http("PUT", f"{path(kind)}/x", made.json)
        assert put.json["metadata"]["resourceVersion"] == made.json["metadata"]["resourceVersion"], put.text
        assert (await http("DELETE", f"{path(kind)}/x")).status == 200


_WORDS = (
    "metadata name labels spec containers image resources limits requests cpu template selector matchLabels rules "
    "subjects roleRef hard versions names data status tolerations volumes env ports replicas completions"
)
_NAMES = st.sampled_from(sorted(_WORDS.split()))
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x", "1", "500m", "1Gi", "a/b"]))
_JUNK = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(STORED), spec=_JUNK, rest=st.dictionaries(_NAMES, _JUNK, max_size=3))
def test_junk_is_refused_in_kubernetes_terms(kind: Kind, spec: Any, rest: Object) -> None:
    body = {**rest, "metadata": {"name": "x"}, "spec": spec}
    assert _refusal(kind, body) in (None, 400, 403, 422)


def _refusal(kind: Kind, body: Object) -> int | None:
    api = ApiServer(registry=KubeletRegistry())
    try:
        obj, _unknown = check(kind, decode(kind, json.dumps(body).encode(), "application/json"))
        api.resources.create(kind, obj, "default" if kind.namespaced else None)
    except ApiError as error:
        return error.code
    return None
