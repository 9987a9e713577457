"""Actions of recorded scenarios that are only named in the recording, and the options of each scenario.

Owns what a note like "taints removed" means on a cluster. It must not know what should follow from it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.contract.cluster import CORE, container
from tests.contract.golden.replay import Action, Replay
from tests.contract.waiting import until

Json = Any
_SETTINGS = tomllib.loads(Path(__file__).with_name("scenarios.toml").read_text(encoding="utf-8"))
UNCLAIMED: Mapping[str, str] = _SETTINGS["unclaimed"]
KNOWN: Mapping[str, str] = _SETTINGS["known"]


def options(scenario: str) -> Mapping[str, Any]:
    """A scenario's options (see scenarios.toml)."""
    found: Mapping[str, Any] = _SETTINGS["options"].get(scenario, {})
    return found


def actions(scenario: str) -> Mapping[str, Action]:
    """The named actions of a scenario; `before` and `after` run around it."""
    return _ACTIONS.get(scenario[:3].rstrip("-"), {})


def _patch_node(replay: Replay, node: str, body: Json) -> None:
    answer = replay.cluster.http.request(
        "PATCH", f"{CORE}/nodes/{node}", body, content_type="application/merge-patch+json"
    )
    assert answer.code == 200, answer.text


def _taints(value: Callable[[int], list[Json]]) -> Action:
    def act(replay: Replay) -> None:
        for number in range(1, 5):
            _patch_node(replay, f"node-0{number}", {"spec": {"taints": value(number) or None}})

    return act


def _cordon(first: int, last: int, unschedulable: bool) -> Action:
    def act(replay: Replay) -> None:
        for number in range(first, last + 1):
            _patch_node(replay, f"node-0{number}", {"spec": {"unschedulable": unschedulable or None}})

    return act


def _gate_removed(replay: Replay) -> None:
    body = [{"op": "remove", "path": "/spec/schedulingGates"}]
    assert replay.ns.patch("pods", "gated", body, "json").code == 200


def _one_available(replay: Replay) -> None:
    assert replay.ns.patch("poddisruptionbudgets", "pdb", {"spec": {"minAvailable": 1}}).code == 200
    replay.ns.wait("poddisruptionbudgets", "pdb", lambda pdb: pdb["status"]["disruptionsAllowed"] == 1)


def _namespace_gone(replay: Replay) -> None:
    path = f"{CORE}/namespaces/{replay.ns.name}"
    until(lambda: replay.cluster.http.request("GET", path).code == 404, 30, "the namespace is gone")


def _gold(replay: Replay) -> None:
    _patch_node(replay, "node-02", {"metadata": {"labels": {"gold": None}}})


def _settled(replay: Replay) -> None:
    replay.ns.job_done("j")
    replay.ns.wait("pods", "crash", lambda pod: container(pod)["restartCount"] >= 1)
    replay.ns.wait("pods", "init", lambda pod: bool(pod["status"].get("initContainerStatuses")))


_NONE = _taints(lambda _: [])
_ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "06c": {"minAvailable 1": _one_available},
    "10b": {"gate removed": _gate_removed, "after": _gold},
    "10c": {
        "before": _taints(lambda number: [{"key": "gold", "value": f"v{number % 2}", "effect": "NoSchedule"}]),
        "taints removed": _NONE,
        "after": _NONE,
    },
    "19": {"namespace 404": _namespace_gone},
    "19b": {"namespace 404": _namespace_gone},
    "26a": {
        "node-1 cordoned": _cordon(1, 1, unschedulable=True),
        "all cordoned": _cordon(2, 4, unschedulable=True),
        "uncordoned": _cordon(1, 4, unschedulable=False),
        "after": _cordon(1, 4, unschedulable=False),
    },
    "27": {
        "before": _taints(lambda n: [{"key": "gold", "value": "x", "effect": "NoSchedule"}] if n == 4 else []),
        "taint removed": _NONE,
        "node-3 tainted NoExecute": _taints(
            lambda n: [{"key": "gold", "value": "x", "effect": "NoExecute"}] if n == 3 else []
        ),
        "after": _NONE,
    },
    "29": {"settled": _settled},
}
