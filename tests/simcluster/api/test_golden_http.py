"""Requests recorded on a real Kubernetes 1.36 are answered in the same words.

The recordings (golden/*.json) keep what a client can rely on: codes, reasons, messages, details, warnings, data,
labels and field managers. Dumps of Go structures inside messages are cut off there and not claimed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.api.server import ApiServer

from .conftest import Http

_GOLDEN = Path(__file__).parent / "golden"
_UID = re.compile(r"uid-\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RECORD = re.compile(r"in record \(\d+\)")
_SLEEP = {"name": "c", "image": "localhost/py:1", "command": ["sh", "-c", "sleep 3"]}
_POD_SPEC = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [_SLEEP]}


def _rows(name: str) -> list[Object]:
    rows: list[Object] = json.loads((_GOLDEN / f"{name}.json").read_text())
    return rows


async def _prepare(api: ApiServer, http: Http) -> dict[str, str | None]:
    await api.client.create("namespaces", {"metadata": {"name": "ns"}})
    account = await api.client.create("serviceaccounts", {"metadata": {"name": "weak"}}, "ns")
    for name in ("imm", "p"):
        await api.client.create("pods", {"metadata": {"name": name}, "spec": _POD_SPEC}, "ns")
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": {"spec": _POD_SPEC}}
    for name in ("j", "jj"):
        await api.client.create("jobs.batch", {"metadata": {"name": name}, "spec": spec}, "ns")
    await api.client.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}}, "ns")
    weak = api.tokens.issue_service_account("ns", "weak", account["metadata"]["uid"])
    return {"admin": http.token, "weak": weak, "bad-token": "nonsense", "anonymous": None}


async def _body(api: ApiServer, row: Object) -> Any:
    body = row.get("body")
    if row["note"] == "too big configmap":
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"k": "x" * 1_100_000}}
    if row["method"] == "PUT" and isinstance(body, dict) and "resourceVersion" in body["metadata"]:
        current = (await api.client.get("configmaps", "a", "ns"))["metadata"]
        body["metadata"]["uid"] = current["uid"]
        if "current" in row["note"]:
            body["metadata"]["resourceVersion"] = current["resourceVersion"]
    return body


def _plain(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    return json.loads(_RECORD.sub("in record (N)", _UID.sub("UID", text)))


def _agrees(expected: Any, found: Any) -> bool:
    """Whether `found` says what `expected` says: texts that were cut in the recording only need to begin alike."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(_agrees(value, found.get(key)) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(_agrees, expected, found))
    if isinstance(expected, str) and isinstance(found, str):
        return found == expected or (
            ("nvalid value: " in expected[-17:] or "negative)" in expected) and found.startswith(expected)
        )
    return bool(expected == found)


@pytest.mark.parametrize("recording", ["errors", "patches"])
async def test_recorded_requests_get_the_recorded_answers(api: ApiServer, http: Http, recording: str) -> None:
    tokens = await _prepare(api, http)
    different: list[str] = []
    for row in _rows(recording):
        client = http.as_user(tokens[row["who"]])
        content_type = row.get("content_type") or ("text/plain" if row["method"] == "PATCH" else None)
        headers = {"User-Agent": "python-requests/2", **row.get("headers", {})}
        if row["note"] == "406":
            headers["Accept"] = "text/html"
        answer = await client(row["method"], row["path"], await _body(api, row), content_type, **headers)
        expected = row["response"]
        found = answer.text if isinstance(expected, str) else answer.json
        agrees = answer.status == row["code"] and _agrees(_plain(expected), _plain(found))
        if not agrees or row.get("warning") != answer.headers.get("Warning"):
            said = f"{answer.status} {answer.text[:600]} {answer.headers.get('Warning')}"
            different.append(
                f"{row['method']} {row['path']} ({row['note']})\n  want {row['code']} {expected}\n  got  {said}"
            )
    assert not different, "\n".join(different)
