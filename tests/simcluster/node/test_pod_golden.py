"""Pods replayed against histories recorded on a real Kubernetes: the same statuses in the same order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.simcluster.node.cluster_process import Namespace, wait_for
from tests.simcluster.node.sequences import collapsed, summary
from tests.simcluster.node.test_pods import python, shell

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "golden" / "pods.json").read_text())
IMAGE = "simcluster.local/python:3"


@contextmanager
def history(ns: Namespace) -> Iterator[list[dict[str, Any]]]:
    """Statuses of the namespace's pods as a watch tells them."""
    seen: list[dict[str, Any]] = []
    version = ns.api.call("GET", ns.path("pods"))["metadata"]["resourceVersion"]

    def follow() -> None:
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds=20"
        for line in ns.api.lines(ns.path("pods") + query):
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                seen.append(summary(event["object"]["status"]))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    yield seen


def init(name: str, code: str, **more: object) -> dict[str, object]:
    return {"name": name, "image": IMAGE, **shell(code), **more}


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "01b/j-0": (shell("sleep 0.3"), {}),
    "13/notfound": ({"command": ["/no/such"]}, {}),
    "13/oom": (
        python(
            "import time; time.sleep(0.2); x = bytearray(200 << 20); time.sleep(9)",
            resources={"limits": {"memory": "64Mi"}},
        ),
        {},
    ),
    "18/init-ok": (shell("sleep 0.3"), {"initContainers": [init("i1", "sleep 0.3"), init("i2", "sleep 0.3")]}),
    "18/init-fail": (shell("true"), {"initContainers": [init("i1", "sleep 0.3; exit 4"), init("i2", "true")]}),
    "13/exit1": (shell("sleep 0.3; exit 1"), {}),
    "07c/p": (
        python("import signal, time; signal.signal(15, lambda *_: (time.sleep(0.2), exit(0))); time.sleep(99)"),
        {"activeDeadlineSeconds": 1},
    ),
    "11/never": ({"image": "localhost/absent:1", "imagePullPolicy": "Never"}, {}),
    "11/badname": ({"image": "UPPER/Case:1"}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pod_goes_through_the_recorded_states(ns: Namespace, case: str) -> None:
    containers, spec = CASES[case]
    expected = GOLDEN[case]
    with history(ns) as seen:
        ns.pod("p", containers, **spec)
        wait_for(lambda: seen and seen[-1] == expected[-1], f"the last recorded state of {case}, not {seen[-1:]}", 15)
    assert collapsed(seen) == expected
