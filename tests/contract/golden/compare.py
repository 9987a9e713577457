"""Says where a replay differs from the recording, in words that a developer of the simulated cluster can act on.

Owns the comparison and its few allowances. It must not know how either side was obtained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.contract.golden.normalise import Facets, Names, steps_of
from tests.contract.golden.replay import Exchange, Observation, here, unfinalized

Json = Any
_FREE = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "lastTransitionTime",
    "lastProbeTime",
    "startTime",
    "containerID",
    "continue",
    "selfLink",
    "time",
    "generation",
    "nodeName",
    "imageID",
}
_NOT_CLAIMED = {".status.resources"}


def differences(expected: Json, seen: Observation, scale: float, options: Mapping[str, Any], names: Names) -> list[str]:
    """All differences; an empty list means that the replay equals the recording."""
    found = list(seen.notes)
    found += _objects(expected["objects"], seen.objects, scale, options)
    if expected["events"] is not None:
        found += _events(expected["events"], seen.events, options)
    for exchange in seen.exchanges:
        found += _exchange(exchange, names, options)
    return found


# -- objects ---------------------------------------------------------------------------------------------------------


def _objects(
    expected: Mapping[str, Facets], seen: Mapping[str, Facets], scale: float, options: Mapping[str, Any]
) -> list[str]:
    kinds = {role.split("/", maxsplit=1)[0] for role in expected}
    wanted = _grouped(_pruned(expected, options), options)
    got = _grouped(
        _pruned({role: mine for role, mine in seen.items() if role.split("/")[0] in kinds}, options), options
    )
    found = [f"{role}: never seen" for role in wanted if role not in got]
    found += [f"{role}: not in the recording" for role in got if role not in wanted]
    for role in wanted:
        if role in got:
            found += _lines(role, wanted[role], got[role], scale, options)
    return found


def _pruned(objects: Mapping[str, Facets], options: Mapping[str, Any]) -> dict[str, Facets]:
    """Without what the scenario's options leave out."""
    skip = [re.compile(word) for word in options.get("skip", ())]
    found: dict[str, Facets] = {}
    for role, mine in objects.items():
        kept = {facet: line for facet, line in mine.items() if not any(word.search(f"{role} {facet}") for word in skip)}
        if kept:
            found[role] = kept
    return found


def _grouped(objects: dict[str, Facets], options: Mapping[str, Any]) -> dict[str, Facets]:
    """Objects that are made alike and whose order is free get numbers by what they went through."""
    alike = [*options.get("alike", ()), *(f"Pod/{job}-\\d+#" for job in options.get("any_index", ()))]
    found: dict[str, Facets] = {}
    for pattern in alike:
        matching = [role for role in objects if re.search(pattern, role)]
        for number, mine in enumerate(sorted((objects.pop(role) for role in matching), key=repr)):
            found[f"{pattern}({number})"] = mine
    return {**objects, **found}


def _lines(role: str, expected: Facets, seen: Facets, scale: float, options: Mapping[str, Any]) -> Iterator[str]:
    brief = _any(options.get("brief", ()), role)
    if options.get("free_finalizers"):
        expected, seen = _without_finalizers(expected), _without_finalizers(seen)
    for facet in dict.fromkeys([*expected, *seen]):
        wanted = steps_of(_told(facet, [here(value, scale) for value in expected.get(facet, [])], brief=brief))
        got = steps_of(_told(facet, seen.get(facet, []), brief=brief))
        if _any(options.get("open", ()), f"{role} {facet}"):
            turns = min(len(wanted), len(got))
            wanted, got = (wanted[:turns], got[:turns]) if turns else (wanted, got)
        if _any(options.get("ends", ()), f"{role} {facet}"):
            wanted, got = _ends(wanted), _ends(got)
        if options.get("cut"):
            got = got[: len(wanted)]
        if wanted != got:
            yield f"{role} [{facet}]: expected {_shown(wanted)}, saw {_shown(got)}"


def _without_finalizers(mine: Facets) -> Facets:
    return {**mine, "life": list(dict.fromkeys(map(unfinalized, mine.get("life", []))))}


def _ends(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [("", steps[0][1]), ("", steps[-1][1])] if steps else []


def _any(patterns: Sequence[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def _told(facet: str, line: Sequence[str], *, brief: bool) -> list[str]:
    """What a kubelet is free to tell or not to tell."""
    told = list(line)
    if facet == "condition PodReadyToStartContainers" and told[:1] == ["False"]:
        del told[0]  # the first status may come before or after the sandbox is up
    if facet in {"condition Ready", "condition ContainersReady"}:
        start = "False ContainersNotReady "  # containers that start one after the other may be told one by one
        while len(told) > 1 and told[0].startswith(start) and told[1].startswith(start):
            del told[1]
        if brief:
            told = [value for value in told if not value.startswith((start, "True"))]
    if brief and facet.startswith("container "):
        told = [value for value in told if not value.startswith("Running: running")]
    if facet.startswith("container "):
        told = [value for value in told if value != "Running: waiting ContainerCreating"]
    return [value for value, before in zip(told, ["", *told], strict=False) if value != before]


def _shown(steps: Sequence[tuple[str, str]]) -> str:
    return " → ".join(repr(after) for _, after in steps) or "nothing"


# -- events ----------------------------------------------------------------------------------------------------------


def _events(expected: Sequence[str], seen: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    skip = [re.compile(word) for word in options.get("skip_events", ())]

    def kept(lines: Sequence[str]) -> set[str]:
        return {_placeless(line, options) for line in lines if not any(word.search(line) for word in skip)}

    wanted, got = kept(expected), kept(seen)
    found = [f"event missing: {line}" for line in sorted(wanted - got)]
    if options.get("cut"):
        return found
    return found + [f"event not in the recording: {line}" for line in sorted(got - wanted)]


def _placeless(line: str, options: Mapping[str, Any]) -> str:
    """Without the node that the scheduler happened to choose, and without an index where it is free."""
    for job in options.get("any_index", ()):
        line = re.sub(rf"\b{job}-\d+(?=\b|-)", f"{job}-INDEX", line)
    return re.sub(r"(?<=to )node-\d$", "NODE", line)


# -- HTTP ------------------------------------------------------------------------------------------------------------


def _exchange(exchange: Exchange, names: Names, options: Mapping[str, Any]) -> list[str]:
    step = exchange.step
    what = f"{step['method']} {step['path']}" + (f" ({step['note']})" if step.get("note") else "")
    if any(re.search(word, what) for word in options.get("skip_http", ())):
        return []
    if exchange.code != step["code"] and not _any(options.get("any_code", ()), what):
        return [f"{what}: expected {step['code']}, got {exchange.code} {str(exchange.response)[:300]}"]
    if "response" not in step or (isinstance(step["response"], str) and step["response"].startswith("(")):
        return []
    skip = options.get("skip_fields", ())
    found = subset(step["response"], exchange.response, names)
    return [f"{what}: {line}" for line in found if not _any(skip, line.split(":", 1)[0])]


def _plain(names: Names, text: str) -> str:
    """Without dumps of Go structures, ages, and the order in which two streams were written."""
    text = names.text(text)
    text = re.sub(r"(?<=previously negative\))\n.*", "", text, flags=re.DOTALL)
    text = re.sub(r"^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$", r"\1-RANDOM", text)
    text = re.sub(r'Invalid value: "?\{.*\}"?: ', "Invalid value: DUMP: ", text, flags=re.DOTALL)
    text = re.sub(r"(?<=in record \()\d+(?=\))", "N", text)
    text = re.sub(r"^(\d+[smhd])+$|(?<=\()(\d+[smhd])+(?= ago\))", "AGE", text)
    text = re.sub(r"^node-\d$", "NODE", text)
    if re.match(r"(out|err) \d+\n", text):
        text = "\n".join(sorted(text.split("\n")))
    return text


def subset(wanted: Json, got: Json, names: Names, where: str = "") -> Iterator[str]:
    """Where `got` lacks or contradicts something of `wanted`; ids, versions and times are free."""
    if isinstance(wanted, dict):
        yield from _fields(wanted, got, names, where)
    elif isinstance(wanted, list):
        yield from _items(wanted, got, names, where)
    elif isinstance(wanted, str) and isinstance(got, str):
        plain = _plain(names, re.sub(r"<([\w.-]+)#\d+>", r"\1-RANDOM", wanted))
        if plain != _plain(names, got):
            yield f"{where}: expected {plain!r}, got {_plain(names, got)!r}"
    elif wanted != got:
        yield f"{where}: expected {wanted!r}, got {got!r}"


def _fields(wanted: Json, got: Json, names: Names, where: str) -> Iterator[str]:
    if not isinstance(got, dict):
        yield f"{where or 'body'}: expected an object, got {got!r}"
        return
    for key, value in wanted.items():
        if key in _FREE or (key == "ready" and isinstance(value, int)) or f"{where}.{key}" in _NOT_CLAIMED:
            continue
        if key not in got:
            yield f"{where}.{key}: missing (expected {str(value)[:200]})"
        else:
            yield from subset(value, got[key], names, f"{where}.{key}")


def _items(wanted: Json, got: Json, names: Names, where: str) -> Iterator[str]:
    if not isinstance(got, list) or len(got) != len(wanted):
        yield f"{where}: expected {str(wanted)[:300]}, got {str(got)[:300]}"
        return
    for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
        yield from subset(one, other, names, f"{where}[{number}]")
