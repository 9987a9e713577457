"""Replays one recorded scenario on a cluster: the same requests in the same situations, with all watches open.

Owns the mapping of images, nodes, seconds and names, the order of actions and what is collected. It must not know what
the outcome should be.

Seconds in commands and in specs are scaled like the simulated cluster's own delays; whole-second fields stay at least
one second.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.contract.cluster import CORE, Cluster, Namespace, config_map
from tests.contract.golden.normalise import Facets, Names, event_line, facets
from tests.contract.http import Answer, Http, Recorder, anonymous, bearing
from tests.contract.waiting import LateError, pause, until

Json = Any
Action = Callable[["Replay"], None]

_WATCHED = ("pods", "jobs", "daemonsets", "configmaps", "secrets", "serviceaccounts")
_SECONDS = ("terminationGracePeriodSeconds", "activeDeadlineSeconds", "ttlSecondsAfterFinished",
            "gracePeriodSeconds", "deletionGracePeriodSeconds")  # fmt: skip
_SITUATION_S = 10.0
_QUIET_REAL_S = 4.0


_ANYTHING = "application/json, */*"
_ACCEPT = {
    "Table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "PartialObjectMetadataList": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "APIGroupDiscoveryList": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
}


def _kind(response: Json) -> str:
    return str(response.get("kind")) if isinstance(response, dict) else ""


@dataclass(frozen=True)
class Exchange:
    """One replayed request and its answer, normalised like a recording."""

    step: Json
    code: int
    headers: Mapping[str, str]
    response: Json


@dataclass
class Observation:
    """What a replay saw."""

    objects: dict[str, Facets] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def seconds(real: int, scale: float) -> int:
    """A whole-second field of a spec, scaled; never 0 unless it was 0."""
    return real if real == 0 else max(1, round(real * scale))


def command(text: str, scale: float) -> str:
    """A shell or Python text with its sleeps scaled."""
    text = re.sub(r"sleep (\d+)", lambda found: f"sleep {int(found[1]) * scale:g}", text)
    text = re.sub(r"(?<=-t0)([<>])(\d+)", lambda found: f"{found[1]}{int(found[2]) * scale:g}", text)
    tenths = round(scale * 10)
    return re.sub(r"sleep \$\(\((.+?)\)\)(?=[;\"]|$)", rf"sleep 0.$(({tenths}*(\1)))", text)


class Replay:
    """One scenario on one cluster, in a namespace of its own."""

    def __init__(
        self,
        cluster: Cluster,
        expected: Json,
        special: Mapping[str, Action],
        options: Mapping[str, Any],
        patience: float = 1.0,
    ) -> None:
        self.cluster = cluster
        self.expected = expected
        self.special = special
        self.options = options
        # Commands and whole seconds last longer where a busy machine would let them end before the client acts.
        self.unit = cluster.scale * options.get("factor", 1.0) * patience
        self.seen = Observation()
        self.ns: Namespace = cluster.namespace(prefix="g", labels=options.get("labels", {}))
        self.names = Names(self.ns.name, cluster.image)
        self.answers: list[Json] = []
        self._watches: list[Recorder] = []
        self._known: tuple[int, dict[str, Facets]] = (-1, {})

    # -- watching ------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Open all watches, from now."""
        for resource in _WATCHED:
            query = {"timeoutSeconds": 300}
            if resource in {"pods", "jobs", "daemonsets"}:
                query["resourceVersion"] = self.ns.listing(resource)["metadata"]["resourceVersion"]
            self._watches.append(self.ns.watch(resource, **query))
        for resource in ("nodes", "namespaces"):
            if any(role.startswith(resource[:-1].capitalize() + "/") for role in self.expected["objects"]):
                self._watch_cluster(resource)

    def _watch_cluster(self, resource: str) -> None:
        query = {"watch": "1", "timeoutSeconds": 300}
        if resource == "namespaces":
            query["fieldSelector"] = f"metadata.name={self.ns.name}"
        self._watches.append(Recorder(self.cluster.http.stream(f"{CORE}/{resource}", query)))

    def facets(self) -> dict[str, Facets]:
        """Facets of all objects so far."""
        events = [event for watch in self._watches for event in watch.events]
        if self._known[0] != len(events):
            self._known = (len(events), facets(self.names, events))
        return self._known[1]

    def close(self) -> None:
        """End the watches, drop the namespace."""
        for watch in self._watches:
            watch.close()
        self.ns.drop()

    # -- acting --------------------------------------------------------------------------------------------------

    def run(self) -> Observation:
        """The whole scenario."""
        try:
            if "before" in self.special:
                self.special["before"](self)
            self.watch()
            started, before = time.monotonic(), 0
            for step in self.expected["steps"]:
                pause(self.scaled((step["at"] - before) / 1000) - (time.monotonic() - started))
                self._situation(step)
                started, before = time.monotonic(), step["at"]
                self._act(step)
            self._last(started, before)
            self.seen.objects = self.facets()
            self.seen.events = self._events()
        finally:
            if "after" in self.special:
                self.special["after"](self)
            self.close()
        return self.seen

    def scaled(self, real_s: float) -> float:
        """Seconds of the recording, as seconds here."""
        return real_s * self.cluster.scale

    def _act(self, step: Json) -> None:
        note = step.get("note", "")
        if note in self.special:
            self.special[note](self)
        elif "method" in step:
            self.exchange(step)
        elif "path" not in step:
            raise LookupError(f"no action for the recorded note {note!r}")

    def exchange(self, step: Json) -> Answer:
        """Send one recorded request and keep the answer."""
        path = self.real(step["path"])
        body = step.get("body")
        sent: Json = None
        if body == "(1.1 MB)":
            sent = config_map("big", {"k": "x" * 1_100_000})
        elif isinstance(body, str) and not body.startswith("<"):
            sent = body.encode()
        elif body is not None:
            sent = self.body(body)
        if "current rv" in step.get("note", ""):
            sent["metadata"] = self.cluster.http.request("GET", path).json["metadata"]
        http = self._speaker(step.get("note", ""))
        kind = step.get("content_type", "application/json")
        accept = _ACCEPT.get(_kind(step.get("response")), _ANYTHING)
        if step.get("note") == "406":
            accept = "application/xml"
        answer = http.request(step["method"], path, sent, content_type=kind, accept=accept)
        self.keep(step, answer)
        return answer

    def _speaker(self, note: str) -> Http:
        """Who sent the recorded request: the administrator, a weak account, nobody, or somebody with a bad token."""
        access = self.cluster.http.access
        if note.startswith("anonymous"):
            return Http(anonymous(access))
        if note.startswith("401 bad token"):
            return Http(bearing(access, "no-such-token"))
        if "weak account" in note or note.startswith("403 service account"):
            return Http(bearing(access, self.as_account("weak")))
        return self.cluster.http

    def keep(self, step: Json, answer: Answer) -> None:
        """Keep an answer for the comparison."""
        try:
            found = answer.json
        except ValueError:
            found = answer.text
        self.answers.append(found)
        if "response" in step:
            step = {**step, "response": self.body(step["response"])}
        self.seen.exchanges.append(Exchange(step, answer.code, answer.headers, found))

    def real(self, text: str) -> str:
        """Recorded text with this run's names, nodes and seconds."""
        self.facets()
        text = re.sub(r"<([\w.-]+#\d+)>", lambda found: self.names.name_of(found[1]) or "absent", text)
        text = re.sub(r"(?<=gracePeriodSeconds=)\d+", lambda f: str(seconds(int(f[0]), self.unit)), text)
        return re.sub(r"\bnode-(\d)\b", r"node-0\1", text.replace("NS", self.ns.name))

    def body(self, body: Json) -> Json:
        """A recorded object with this run's image, names, nodes and seconds."""
        text = json.dumps(body).replace("localhost/py:1", self.cluster.image)
        return self._scaled(json.loads(self.real(text)))

    def _scaled(self, value: Json) -> Json:
        if isinstance(value, list):
            return [self._scaled(item) for item in value]
        if not isinstance(value, dict):
            return value
        found = {key: self._scaled(item) for key, item in value.items()}
        for key in _SECONDS:
            if isinstance(found.get(key), int):
                found[key] = seconds(found[key], self.unit)
        if isinstance(found.get("command"), list):
            found["command"] = [command(str(word), self.unit) for word in found["command"]]
        return found

    # -- waiting -------------------------------------------------------------------------------------------------

    def _situation(self, step: Json) -> None:
        missing: list[Sequence[str]] = []

        def reached() -> bool:
            now = self.facets()
            missing[:] = [found for found in step["seen"] if self._reliable(found) and not self._met(now, found)]
            return not missing

        try:
            until(reached, _SITUATION_S, "the recorded situation")
        except LateError:
            self.seen.notes.append(f"before {step.get('path') or step['note']}: never saw {missing}")

    def _reliable(self, found: Sequence[str]) -> bool:
        """Worth waiting for: neither a matter of luck nor left out by the scenario's options."""
        role, facet, value = found
        left_out = [*self.options.get("skip", ()), *self.options.get("open", ()), *self.options.get("alike", ())]
        if facet == "first told" or any(re.search(pattern, f"{role} {facet}") for pattern in left_out):
            return False
        if any(role.startswith(f"Pod/{job}-") for job in self.options.get("any_index", ())):
            return False
        brief = any(re.search(pattern, role) for pattern in self.options.get("brief", ()))
        return not (brief and value.startswith(("Running: running", "True", "False ContainersNotReady")))

    def _met(self, now: dict[str, Facets], found: Sequence[str]) -> bool:
        role, facet, value = found
        return here(value, self.unit) in now.get(role, {}).get(facet, []) or (
            facet == "life"
            and bool(self.options.get("free_finalizers"))
            and unfinalized(here(value, self.unit)) in map(unfinalized, now.get(role, {}).get(facet, []))
        )

    def _last(self, started: float, before: int) -> None:
        """Wait until every object reached its last recorded values, then as long as a late surprise would take."""
        ends = [
            [role, facet, line[-1]] for role, mine in self.expected["objects"].items() for facet, line in mine.items()
        ]
        ends = [found for found in ends if self._reliable(found)]

        def reached() -> bool:
            now = self.facets()
            return all(self._met(now, found) for found in ends)

        rest = (self.expected["length"] - before) / 1000 * max(self.unit, self.cluster.scale)
        try:
            until(reached, max(rest, 0.0) + _SITUATION_S, "the recorded end")
        except LateError:
            self.seen.notes.append("the recorded end was not reached")
        pause(self.scaled((self.expected["length"] - before) / 1000) - (time.monotonic() - started))
        pause(self.scaled(_QUIET_REAL_S))

    def _events(self) -> list[str]:
        answer = self.cluster.http.request("GET", self.ns.path("events"))
        return sorted({event_line(self.names, event) for event in answer.json["items"]})

    def as_account(self, name: str) -> str:
        """A token of a service account made for the replay."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.ns.post("serviceaccounts", account)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.cluster.http.request("POST", self.ns.path("serviceaccounts", name, "token"), request)
        return str(answer.json["status"]["token"])


def here(value: str, scale: float) -> str:
    """A recorded facet value with this run's whole seconds."""
    return re.sub(r"(?<=grace=)\d+", lambda found: str(seconds(int(found[0]), scale)), value)


def unfinalized(life: str) -> str:
    """A pod's life without the finalizer of its Job."""
    return re.sub(r"(, )?finalizer batch\.kubernetes\.io/job-tracking", "", life)
