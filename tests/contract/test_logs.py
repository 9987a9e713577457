"""Logs: whole, in part, followed, cut and resumed, and the errors of those that are not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, phase, waiting
from tests.contract.http import Json
from tests.contract.waiting import until

LINES = "i=0; while [ $i -lt 8 ]; do echo line $i; i=$((i+1)); done; printf end"
SLOWLY = "i=0; while [ $i -lt 12 ]; do echo line $i; sleep 0.15; i=$((i+1)); done"


@pytest.fixture(scope="module")
def logs(cluster: Cluster, build: Build) -> Iterator[Namespace]:
    """A namespace with a finished pod `done` and others that have no log."""
    ns = cluster.namespace()
    ns.create("pods", build.pod("done", LINES))
    ns.create("pods", build.pod("unscheduled", "true", nodeSelector={"no": "such"}))
    never = {**build.container("c", "true"), "image": "contract.invalid/absent:1", "imagePullPolicy": "Never"}
    ns.create("pods", build.pod("waiting", "", containers=[never]))
    two = [build.container("one", "echo one"), build.container("two", "echo two")]
    ns.create("pods", build.pod("two", "", containers=two))
    ns.finished("done")
    ns.finished("two")
    yield ns
    ns.drop()


WHOLE = "".join(f"line {number}\n" for number in range(8)) + "end"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, WHOLE),
        ({"tailLines": 3}, "line 6\nline 7\nend"),
        ({"tailLines": 0}, ""),
        ({"limitBytes": 10}, WHOLE[:10]),
        ({"follow": "true"}, WHOLE),
        ({"sinceSeconds": 3600}, WHOLE),
        ({"tailLines": 2, "limitBytes": 4}, "line"),
    ],
    ids=str,
)
def test_parts_of_a_log(logs: Namespace, query: Json, text: str) -> None:
    answer = logs.log("done", **query)
    assert (answer.code, answer.text) == (200, text)
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_timestamps_stand_before_each_line(logs: Namespace) -> None:
    lines = logs.log("done", timestamps="true").text.splitlines()
    times, rest = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert "\n".join(rest) == WHOLE
    assert list(times) == sorted(times)
    assert all(time.endswith("Z") and "T" in time for time in times)


@pytest.mark.parametrize("query", [{"tailLines": -1}, {"limitBytes": 0}, {"sinceSeconds": 0}], ids=str)
def test_numbers_out_of_range_are_422(logs: Namespace, query: Json) -> None:
    answer = logs.log("done", **query)
    assert (answer.code, answer.json["reason"]) == (422, "Invalid")


def test_an_unscheduled_pod_has_an_empty_204(logs: Namespace) -> None:
    assert (logs.log("unscheduled").code, logs.log("unscheduled").body) == (204, b"")


def test_a_waiting_container_is_400_with_its_reason(logs: Namespace) -> None:
    logs.wait("pods", "waiting", lambda pod: waiting(pod) == "ErrImageNeverPull")
    answer = logs.log("waiting")
    assert answer.code == 400
    assert answer.json["message"] == 'container "c" in pod "waiting" is waiting to start: ErrImageNeverPull'


def test_of_two_containers_one_must_be_named(logs: Namespace) -> None:
    answer = logs.log("two")
    assert answer.code == 400
    assert answer.json["message"] == "a container name must be specified for pod two, choose one of: [one two]"
    assert logs.log("two", container="two").text == "two\n"
    assert logs.log("two", container="zz").json["message"] == "container zz is not valid for pod two"


def test_no_previous_container_is_400(logs: Namespace) -> None:
    answer = logs.log("done", previous="true")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


def test_an_absent_pod_is_404(logs: Namespace) -> None:
    assert logs.log("nobody").code == 404


def test_following_ends_with_the_container(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", SLOWLY))
    ns.wait("pods", "p", lambda pod: phase(pod) == "Running")
    with ns.http.stream(ns.path("pods", "p", "log"), {"follow": "true"}) as stream:
        lines = [line.decode() for line in stream.lines()]
    assert lines == [f"line {number}" for number in range(12)]


def test_a_cut_follow_is_resumed_by_time_without_losing_a_line(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", SLOWLY))
    ns.wait("pods", "p", lambda pod: phase(pod) == "Running")
    seen: dict[str, str] = {}
    query = {"follow": "true", "timestamps": "true"}
    with ns.http.stream(ns.path("pods", "p", "log"), query) as stream:
        for line in stream.lines():
            time, text = line.decode().split(" ", 1)
            seen[text] = time
            if len(seen) == 4:
                break
    ns.finished("p")
    rest = ns.log("p", timestamps="true", sinceTime=max(seen.values())).text.splitlines()
    seen |= {line.split(" ", 1)[1]: line.split(" ", 1)[0] for line in rest}
    assert sorted(seen, key=lambda text: int(text.split()[1])) == [f"line {number}" for number in range(12)]


def test_following_a_deleted_pod_ends_without_an_error(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", f"echo first; {STAYS}"))
    ns.running("p")
    until(lambda: ns.log("p").text == "first\n", ns.cluster.s(10), "its first line")
    with ns.http.stream(ns.path("pods", "p", "log"), {"follow": "true"}, timeout_s=ns.cluster.s(30)) as stream:
        ns.delete("pods", "p", gracePeriodSeconds=1)
        assert [line.decode() for line in stream.lines()] == ["first"]


def test_the_previous_log_is_that_of_the_last_life(ns: Namespace, build: Build) -> None:
    script = (
        "if [ -e /v/f ]; then echo second; trap 'exit 0' TERM; sleep 600 & wait; fi; touch /v/f; echo first; exit 1"
    )
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec: dict[str, Json] = {"restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}]}
    ns.create("pods", build.pod("p", "", containers=[build.container("c", script, **mount)], **spec))
    until(lambda: ns.log("p").text == "second\n", ns.cluster.s(60), "its second life")
    assert ns.log("p", previous="true").text == "first\n"


def test_both_streams_are_in_the_log(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "echo out; echo err >&2"))
    ns.finished("p")
    assert sorted(ns.log("p").text.splitlines()) == ["err", "out"]
