"""What of a watch stream must be the same on every Kubernetes: per object, the sequences its facets go through.

Owns roles instead of names, words instead of ids and times, and the facets of each kind. It must not know where the
events came from: recordings and replays go through the same functions.

A *facet* is one aspect of an object (a container's state, one condition, the deletion); its value over time is the
sequence of distinct values. Facets are looked at one by one because a kubelet or a controller may write two changes at
once or one after the other, and a client may not rely on either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

Json = Any
Facets = dict[str, list[str]]

_LONG = 400
_TEXTS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\buid-\d+\b"), "UID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b(containerd|simcluster|cri-o|docker)://[\w-]+"), "CONTAINER"),
    (re.compile(r"\bnode-0?\d-ip(:PORT|:\d+)?|\bpod-ip-\d+|\bdns-ip(:\d+)?|\b\d+\.\d+\.\d+\.\d+(:\d+)?\b"), "ADDRESS"),
    (re.compile(r"\bnode-0?(\d)\b"), r"node-\1"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(?<=back-off )(\d+m)?(\d+s)?(?= restarting)"), "DELAY"),
    (re.compile(r'(?<=pods ")([a-z0-9.-]+)-[bcdfghjklmnpqrstvwxz2456789]{5}(?=")'), r"\1-RANDOM"),
    (re.compile(r"\bread udp ADDRESS->ADDRESS"), "read udp ADDRESS"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: N (N)"),
    (re.compile(r"(?<=current: )\d+"), "N"),
    (re.compile(r"\bhex-\d+\b|\b[0-9a-f]{64}\b"), "HEX"),
)


class Names:
    """Roles of pods with random names: `j-0#1` is the first pod made from the name `j-0-`."""

    def __init__(self, namespace: str = "NS", image: str = "localhost/py:1") -> None:
        self.roles: dict[str, str] = {}
        self._made: dict[str, int] = {}
        self._namespace = namespace
        self._image = image

    def learn(self, obj: Json) -> str:
        """The role of an object, `Kind/role`; pods are numbered as they come."""
        meta = obj["metadata"]
        name = meta.get("name", "")
        if obj.get("kind") == "Pod" and meta.get("generateName") and name not in self.roles:
            base = meta["generateName"].rstrip("-")
            self._made[base] = self._made.get(base, 0) + 1
            self.roles[name] = f"{base}#{self._made[base]}"
        return f"{obj.get('kind')}/{self.roles.get(name, self.text(name))}"

    def name_of(self, role: str) -> str | None:
        """The real name of a role, or None while there is none."""
        return next((name for name, known in self.roles.items() if known == role), None)

    def text(self, text: str) -> str:
        """A message without what differs from run to run."""
        for name, role in self.roles.items():
            text = text.replace(name, role.split("#", maxsplit=1)[0] + "-RANDOM")
        if self._namespace != "NS":
            text = text.replace(self._namespace, "NS")
        if self._image != "localhost/py:1":
            text = text.replace(self._image, "localhost/py:1")
        for pattern, word in _TEXTS:
            text = pattern.sub(word, text)
        return text

    def message(self, text: str | None) -> str:
        """A message as a facet shows it: long ones by length, digest and ends."""
        if not text:
            return ""
        plain = self.text(text)
        if len(plain) <= _LONG:
            return plain
        digest = hashlib.sha256(plain.encode()).hexdigest()[:12]
        return f"<{len(plain)} characters, {len(plain.encode())} bytes, {digest}> {plain[:20]}…{plain[-20:]}"


def facets(names: Names, events: Iterable[Json]) -> dict[str, Facets]:
    """`Kind/role` → facet → its distinct values in order, from watch events (type, object) in the order they came."""
    found: dict[str, Facets] = {}
    for event in events:
        obj = event["object"]
        if event["type"] not in {"ADDED", "MODIFIED", "DELETED"} or obj.get("kind") not in _FACETS:
            continue
        role = names.learn(obj)
        mine = found.setdefault(role, {})
        values = _FACETS[obj["kind"]](names, obj)
        if (mine.get("conditions") or [""])[-1] == values.get("conditions", ""):
            values.pop("first told", None)  # counters are compared when a condition comes, not in between
        values["life"] = _life(obj, deleted=event["type"] == "DELETED")
        for facet, value in values.items():
            line = mine.setdefault(facet, [])
            if (value or line) and (not line or line[-1] != value):
                line.append(value)
    return {role: {facet: line for facet, line in mine.items() if line} for role, mine in found.items()}


def steps_of(line: Sequence[str]) -> list[tuple[str, str]]:
    """Each step from one value to the next, the first time it is taken: cycles of any length look alike."""
    pairs = zip(["", *line], line, strict=False)
    return list(dict.fromkeys(pairs))


def _life(obj: Json, *, deleted: bool) -> str:
    if deleted:
        return "gone"
    meta = obj["metadata"]
    words = []
    if obj["kind"] == "Pod":
        words.append("bound" if obj.get("spec", {}).get("nodeName") else "unbound")
    words += [f"finalizer {name}" for name in meta.get("finalizers") or []]
    if meta.get("deletionTimestamp"):
        grace = meta.get("deletionGracePeriodSeconds")
        words.append("deleting" if obj["kind"] != "Pod" else f"deleting grace={grace}")
    return ", ".join(words) or "there"


def _pod(names: Names, pod: Json) -> dict[str, str]:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    values = {"phase": " ".join((phase, status.get("reason", ""), names.message(status.get("message")))).strip()}
    for condition in status.get("conditions") or []:
        values[f"condition {condition['type']}"] = _condition(names, condition)
    for key in ("initContainerStatuses", "containerStatuses"):
        for found in status.get(key) or []:
            values[f"container {found['name']}"] = f"{phase}: {_container(names, found)}"
    return values


def _condition(names: Names, condition: Json) -> str:
    words = (condition["status"], condition.get("reason", ""), names.message(condition.get("message")))
    return " ".join(word for word in words if word)


def _container(names: Names, status: Json) -> str:
    words = [_state(names, status.get("state") or {})]
    last = status.get("lastState") or {}
    if last:
        words.append(f"after {_state(names, last)}")
    if status.get("ready"):
        words.append("ready")
    return ", ".join(words)


def _state(names: Names, state: Json) -> str:
    for word, detail in state.items():
        parts = [word, detail.get("reason", "")]
        if word == "terminated":
            parts.append(str(detail.get("exitCode")))
            if str(detail.get("startedAt") or "").startswith("1970"):
                parts.append("never started")
        parts.append(names.message(detail.get("message")))
        return " ".join(part for part in parts if part)
    return "nothing"


def _job(names: Names, job: Json) -> dict[str, str]:
    status = job.get("status") or {}
    conditions = [f"{found['type']}={_condition(names, found)}" for found in status.get("conditions") or []]
    values = {
        "conditions": "; ".join(conditions),
        "failedIndexes": repr(status["failedIndexes"]) if "failedIndexes" in status else "",
        "failed": str(status.get("failed", "")),
        "suspend": str((job.get("spec") or {}).get("suspend", "")),
        "started": "started" if status.get("startTime") else "",
    }
    if conditions:
        counts = ("active", "succeeded", "failed", "terminating", "completedIndexes", "failedIndexes")
        told = " ".join(f"{key}={status[key]}" for key in counts if key in status)
        values["first told"] = f"{conditions[-1].split(' ', 1)[0]}: {told}"
    return values


def _daemonset(names: Names, found: Json) -> dict[str, str]:
    status = found.get("status") or {}
    return {"desired": str(status.get("desiredNumberScheduled", ""))}


def _node(names: Names, node: Json) -> dict[str, str]:
    spec = node.get("spec") or {}
    taints = [f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in spec.get("taints") or []]
    values = {"unschedulable": str(spec.get("unschedulable", "")), "taints": ", ".join(taints) or "none"}
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready":
            values["Ready"] = _condition(names, condition)
    return values


def _namespace(names: Names, found: Json) -> dict[str, str]:
    status = found.get("status") or {}
    values = {"phase": status.get("phase", "")}
    for condition in status.get("conditions") or []:
        values[f"condition {condition['type']}"] = _condition(names, condition)
    return values


def _plain(names: Names, found: Json) -> dict[str, str]:
    return {}


_FACETS = {
    "Pod": _pod,
    "Job": _job,
    "DaemonSet": _daemonset,
    "Node": _node,
    "Namespace": _namespace,
    "ConfigMap": _plain,
    "Secret": _plain,
    "ServiceAccount": _plain,
}


def event_line(names: Names, event: Json) -> str:
    """One core event as a line: who, what, why, in which of the two shapes."""
    about = event["involvedObject"]
    who = names.roles.get(about.get("name", ""), names.text(about.get("name", ""))).split("#", maxsplit=1)[0]
    shape = "counted" if event.get("count") else "series" if event.get("eventTime") else "bare"
    reporter = event.get("reportingComponent") or (event.get("source") or {}).get("component", "")
    words = (
        event["type"],
        event["reason"],
        f"{about.get('kind')}/{who}",
        shape,
        reporter,
        names.message(event["message"]),
    )
    return " | ".join(words)
