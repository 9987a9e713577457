"""Termination messages: the channel through which the harness gets its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, condition, container, phase, terminated
from tests.contract.http import Json

LIMIT = 4096
POD_LIMIT = 12 * 1024


def _writes(expression: str) -> list[str]:
    return ["python3", "-c", f"open('/dev/termination-log', 'wb').write({expression})"]


@pytest.fixture(scope="module")
def told(cluster: Cluster, build: Build) -> Iterator[dict[str, Json]]:
    """Pods that leave all kinds of messages, started together; by name, the finished pod."""
    ns = cluster.namespace()
    logs = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    lines = "i=0; while [ $i -lt 200 ]; do echo line $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; exit 3"
    containers: dict[str, list[Json]] = {
        "short": [build.container("c", _writes("b'a' * 100"))],
        "exact": [build.container("c", _writes(f"b'a' * {LIMIT - 1} + b'Z'"))],
        "over": [build.container("c", _writes(f"b'S' + b'a' * {LIMIT} + b'Z'"))],
        "far": [build.container("c", _writes("b'S' + b'a' * 19998 + b'Z'"))],
        "bad-utf8": [build.container("c", _writes(r"b'ok\xff\xfeok'"))],
        "empty": [build.container("c", _writes("b''"))],
        "nul": [build.container("c", _writes(r"b'a\x00b'"))],
        "many": [build.container(f"c{n}", _writes(f"b'{n}' * {LIMIT}")) for n in range(5)],
        "three": [build.container(f"c{n}", _writes(f"b'{n}' * {LIMIT}")) for n in range(3)],
        "log-fails": [build.container("c", lines, **logs)],
        "log-succeeds": [build.container("c", "echo hello", **logs)],
        "log-and-file": [build.container("c", "echo log; printf file > /dev/termination-log; exit 3", **logs)],
        "path": [build.container("c", "printf custom > /tmp/m; exit 1", terminationMessagePath="/tmp/m")],
        "twice": [build.container("c", "printf one > /dev/termination-log; printf two > /dev/termination-log")],
    }
    for name, wanted in containers.items():
        ns.create("pods", build.pod(name, "", containers=wanted))
    yield {name: ns.finished(name) for name in containers}
    ns.drop()


def _message(pod: Json, name: str = "c") -> str | None:
    found: str | None = terminated(pod, name).get("message")
    return found


def test_a_short_message_is_whole(told: dict[str, Json]) -> None:
    assert _message(told["short"]) == "a" * 100


def test_4096_bytes_are_whole(told: dict[str, Json]) -> None:
    assert _message(told["exact"]) == "a" * (LIMIT - 1) + "Z"


def test_of_more_the_last_4096_bytes_are_kept(told: dict[str, Json]) -> None:
    assert _message(told["over"]) == "a" * (LIMIT - 1) + "Z"
    assert _message(told["far"]) == "a" * (LIMIT - 1) + "Z"


def test_up_to_three_containers_have_4096_bytes_each(told: dict[str, Json]) -> None:
    assert [len(_message(told["three"], f"c{n}") or "") for n in range(3)] == [LIMIT] * 3


def test_more_containers_share_12_kib(told: dict[str, Json]) -> None:
    assert [_message(told["many"], f"c{n}") for n in range(5)] == [str(n) * (POD_LIMIT // 5) for n in range(5)]


def test_bad_utf8_becomes_replacement_characters(told: dict[str, Json]) -> None:
    assert _message(told["bad-utf8"]) == "ok\ufffd\ufffdok"


def test_a_nul_is_kept(told: dict[str, Json]) -> None:
    assert _message(told["nul"]) == "a\x00b"


def test_an_empty_file_is_no_message(told: dict[str, Json]) -> None:
    assert "message" not in terminated(told["empty"])


def test_the_last_write_to_the_file_counts(told: dict[str, Json]) -> None:
    assert _message(told["twice"]) == "two"


def test_the_end_of_the_log_stands_in_on_failure(told: dict[str, Json]) -> None:
    message = _message(told["log-fails"]) or ""
    assert 1500 < len(message) <= 2048
    assert message.endswith("line 199 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")


def test_the_log_does_not_stand_in_on_success(told: dict[str, Json]) -> None:
    assert _message(told["log-succeeds"]) is None


def test_the_file_goes_before_the_log(told: dict[str, Json]) -> None:
    assert _message(told["log-and-file"]) == "file"


def test_the_path_may_be_another(told: dict[str, Json]) -> None:
    assert _message(told["path"]) == "custom"


def test_a_message_is_readable_while_another_container_holds_the_pod(ns: Namespace, build: Build) -> None:
    spec: dict[str, Json] = {
        "containers": [
            build.container("measure", "printf result > /dev/termination-log; exit 7"),
            build.container("hold", STAYS),
        ]
    }
    ns.create("pods", build.pod("p", "", **spec))
    pod = ns.wait("pods", "p", lambda found: bool(terminated(found, "measure")))
    assert _message(pod, "measure") == "result"
    assert terminated(pod, "measure")["exitCode"] == 7
    pod = ns.wait("pods", "p", lambda found: "running" in container(found, "hold").get("state", {}))
    assert phase(pod) == "Running"
    ns.wait("pods", "p", lambda found: condition(found, "Ready") == "False")
    with ns.watch("pods") as watch:
        ns.delete("pods", "p")
        ns.gone("pods", "p")
        last = watch.events[-1]["object"]
    assert _message(last, "measure") == "result", "deletion keeps what was told"
