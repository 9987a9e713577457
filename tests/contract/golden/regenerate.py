"""Makes `expected/*.json` from a folder of recordings: `python -m tests.contract.golden.regenerate FOLDER [SCENARIO…]`.

Owns the reading of recordings and the shape of an expectation:

- `steps`: what the client did, in order: `at` (ms), the request, the answer's code and body, and `seen`: what had been
  reached before (object, facet, value), so that a replay acts in the same situation and not merely at the same time;
- `objects`: facets of all objects (see `normalise`);
- `events`: the lines of the events at the end, sorted;
- `length`: ms.

It must not know any cluster.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.contract.golden.normalise import Names, event_line, facets

Json = Any
EXPECTED = Path(__file__).with_name("expected")
_REQUEST_MS = 40
_REQUESTS_MS = 120
_SEEN = re.compile(r"container |conditions|life|phase")
_POSTED = re.compile(r"POST (\w+) (\S+) -> (\d+)")
_GROUPS = {"jobs": "/apis/batch/v1", "daemonsets": "/apis/apps/v1", "poddisruptionbudgets": "/apis/policy/v1"}
_HELD = ("metadata", "spec", "status")


def load_watch(path: Path) -> list[Json]:
    """The lines of a watch.jsonl with whole objects: fields left out because they were as before are put back."""
    last: dict[tuple[str, str], Json] = {}
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if (obj := line.get("object")) is not None:
            key = (str(obj.get("kind")), str((obj.get("metadata") or {}).get("name")))
            if line["type"] in {"MODIFIED", "DELETED"} and key in last:
                _put_back(obj, last[key], set(line.pop("gone", [])))
            last[key] = obj
        lines.append(line)
    return lines


def _put_back(obj: Json, before: Json, gone: set[str]) -> None:
    for part in _HELD:
        for key, value in (before.get(part) or {}).items():
            if f"{part}.{key}" not in gone and key not in (obj.get(part) or {}):
                obj.setdefault(part, {})[key] = copy.deepcopy(value)


def expectation(folder: Path) -> Json:
    """One scenario's expectation."""
    lines = load_watch(folder / "watch.jsonl")
    watched = [line for line in lines if line["type"] != "CLIENT"]
    names = Names()
    objects = facets(names, watched)
    events = _read(folder / "events.json")
    return {
        "scenario": folder.name,
        "length": max([line["t"] for line in lines] or [0]),
        "steps": _steps(folder, lines, names),
        "objects": dict(sorted(objects.items())),
        "events": None if events is None else sorted({event_line(names, event) for event in events}),
    }


def _read(path: Path) -> Json:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _steps(folder: Path, lines: Sequence[Json], names: Names) -> list[Json]:
    requested = {(_resource(obj), obj["metadata"]["name"]): obj for obj in _read(folder / "request.json") or []}
    spoken = [found for found in _read(folder / "http.json") or [] if "t" in found]
    said = {line["note"] for line in lines if line["type"] == "CLIENT"}
    posts = {line["t"] for line in lines if line["type"] == "CLIENT" and _POSTED.fullmatch(line["note"])}
    silent = [found for found in spoken if _note(found) not in said and found["t"] not in posts]
    lines = sorted(
        [*lines, *({"t": found["t"], "type": "CLIENT", "note": _note(found)} for found in silent)], key=_time
    )
    steps = []
    told: list[list[str]] = []
    for line in lines:
        if line["type"] != "CLIENT":
            continue
        step = _step(line, requested, spoken)
        seen = _seen(lines, line["t"], step)
        step["seen"] = [found for found in seen if found not in told]
        told += step["seen"]
        steps.append(json.loads(_with_roles(json.dumps(step), names)))
    return steps


def _note(exchange: Json) -> str:
    return f"{exchange['method']} {exchange['path']} -> {exchange['code']}"


def _time(line: Json) -> int:
    return int(line["t"])


def _step(line: Json, requested: Json, spoken: Json) -> Json:
    at, note = line["t"], line["note"]
    for exchange in spoken:
        if note == _note(exchange):
            spoken.remove(exchange)
            keys = ("method", "path", "body", "content_type", "code", "response", "note", "request_headers")
            return {"at": at, **{key: _trimmed(exchange[key]) for key in keys if key in exchange}}
    posted = _POSTED.match(note)
    if posted:
        resource, name, code = posted.groups()
        path = f"{_GROUPS.get(resource, '/api/v1')}/namespaces/NS/{resource}"
        step = {"at": at, "method": "POST", "path": path, "body": requested[resource, name], "code": int(code)}
        answers = [found["response"] for found in spoken if found["t"] == at and found["method"] == "POST"]
        return {**step, "response": _trimmed(answers[0])} if answers else step
    return {"at": at, "note": note}


def _trimmed(value: Json) -> Json:
    """Without the volume of the service account's token, which is a pod's own affair."""
    if isinstance(value, list):
        return [_trimmed(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _trimmed(item) for key, item in value.items()}
    for key in ("volumes", "volumeMounts"):
        if isinstance(found.get(key), list):
            found[key] = [item for item in found[key] if not str(item.get("name", "")).startswith("kube-api-access-")]
            if not found[key]:
                del found[key]
    return found


def _resource(obj: Json) -> str:
    return f"{obj['kind'].lower()}s"


def _seen(lines: Sequence[Json], at: int, step: Json) -> list[list[str]]:
    """The last value of each facet that a client can wait for, of all that came before the request was sent.

    A line's time is that of the answer, so what the request itself brought about may stand before it.
    """
    margin = _REQUEST_MS if "method" in step else _REQUESTS_MS
    before = [line for line in lines if line["type"] != "CLIENT" and line["t"] < at - margin]
    body = step.get("body")
    own = body.get("metadata", {}).get("name", "") if isinstance(body, dict) and step.get("method") == "POST" else ""
    return [
        [role, facet, line[-1]]
        for role, mine in facets(Names(), before).items()
        for facet, line in mine.items()
        if _SEEN.match(facet) and (not own or not role.split("/")[1].startswith(own))
    ]


def _with_roles(text: str, names: Names) -> str:
    for name, role in names.roles.items():
        text = text.replace(name, f"<{role}>")
    return text


def main(arguments: Sequence[str]) -> int:
    """Write the expectations of the scenarios named, or of all."""
    if not arguments:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    root = Path(arguments[0])
    wanted = set(arguments[1:])
    for folder in sorted(found for found in root.iterdir() if (found / "watch.jsonl").exists()):
        if not wanted or folder.name in wanted:
            text = json.dumps(expectation(folder), indent=1, ensure_ascii=False)
            (EXPECTED / f"{folder.name}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
