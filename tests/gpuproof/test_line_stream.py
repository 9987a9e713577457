# ruff: noqa: ARG002  (it implements a port; not every argument matters)
"""Following a pod's lines: over broken connections, and never past a gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpuproof.cluster.backoff import Patience
from gpuproof.cluster.port import ClusterError, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.failure import Reason
from gpuproof.line_stream import LineStream, LineStreamError
from tests.gpuproof import pods
from tests.gpuproof.toy_cluster import ToyCluster
from tests.simulated import simulated
from workloads.line_stream import Line, format_line

HASTY = Patience(first_s=0.001, longest_s=0.001, give_up_s=0.05)


def line(number: int, piece: str | None = None, *, more: bool = False) -> str:
    said = piece if piece is not None else f'{{"n":{number}}}'
    return f"2026-01-01T00:00:{number % 60:02d}.5Z " + format_line(Line(number, more, said))


END = '{"end":true}'


@dataclass
class Connection:
    """What one request for the log gets: bytes, and how it ends."""

    text: str
    broken: bool = False

    def chunks(self) -> Iterator[bytes]:
        data = self.text.encode()
        # In pieces that end anywhere, as a network delivers them.
        for start in range(0, len(data), 37):
            yield data[start : start + 37]
        if self.broken:
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, "the stream broke off")

    def interrupt(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Logs(ToyCluster):
    """A cluster whose one pod has this log: one connection after another, the last one again and again."""

    nodes: dict[str, Any] = field(default_factory=dict)
    connections: list[Connection | ClusterError] = field(default_factory=list)
    state: Raw = field(default_factory=pods.running)
    asked: list[str] = field(default_factory=list)

    def follow_log(self, namespace: str, pod: str, container: str, *, since: str = "") -> Connection:
        self.asked.append(since)
        answer = self.connections.pop(0) if len(self.connections) > 1 else self.connections[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw:
        found = pods.pod(name, containers={"measure": dict(self.state)})
        return {**found, "metadata": {**found["metadata"], "uid": "this-one"}}


def follow(cluster: Logs) -> LineStream:
    return LineStream(cluster, "ns", "pod-0", "measure", patience=HASTY)


def test_values_come_once_and_in_order_over_broken_connections() -> None:
    cluster = Logs(
        connections=[
            Connection("2026-01-01T00:00:00Z NCCL INFO somebody else\n" + line(1) + line(2)[:40], broken=True),
            ClusterError(Reason.CLUSTER_UNREACHABLE, "HTTP 502", 502),
            Connection(line(1) + line(2) + line(3, '{"n":', more=True)),
            Connection(line(2) + line(3, '{"n":', more=True) + line(4, "3}") + line(5, END)),
        ]
    )
    stream = follow(cluster)
    assert list(stream) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert stream.ended
    stamp = "2026-01-01T00:00:0{}.5Z"
    assert cluster.asked == ["", stamp.format(1), stamp.format(1), stamp.format(3)]


@pytest.mark.parametrize(
    ("log", "reason", "said"),
    [
        (line(1) + line(3), Reason.TRUNCATED_MEASUREMENT, "line 3 follows line 1"),
        (line(2), Reason.TRUNCATED_MEASUREMENT, "line 2 follows line 0"),
        (line(1) + line(2).replace('"n"', '"m"'), Reason.MALFORMED_MEASUREMENT, "checksum"),
        (line(1) + line(1, '{"n":"anew"}'), Reason.MALFORMED_MEASUREMENT, "started again"),
        (line(1, "[1]"), Reason.MALFORMED_MEASUREMENT, "expected an object"),
        ("unable to retrieve container logs for containerd://x\n", Reason.TRUNCATED_MEASUREMENT, "is lost"),
    ],
)
def test_what_cannot_be_trusted_ends_in_an_error(log: str, reason: Reason, said: str) -> None:
    with pytest.raises(LineStreamError, match=said) as caught:
        list(follow(Logs(connections=[Connection(log)])))
    assert caught.value.reason is reason


def test_a_container_that_ends_before_its_stream_is_told_by_its_last_words() -> None:
    cluster = Logs(connections=[Connection(line(1))], state=pods.terminated(137, ""))
    got = []
    with pytest.raises(LineStreamError, match=r"after line 1 without ending its stream: .*137") as caught:
        got += list(follow(cluster))
    assert caught.value.reason is Reason.NONZERO_EXIT


def test_a_log_that_ends_again_and_again_while_the_container_runs_is_not_followed_for_ever() -> None:
    with pytest.raises(LineStreamError, match="ends again and again") as caught:
        list(follow(Logs(connections=[Connection("")])))
    assert caught.value.reason is Reason.CLUSTER_UNREACHABLE


@pytest.mark.parametrize(
    ("status", "reason"), [(404, Reason.POD_DELETED), (403, Reason.FORBIDDEN), (500, Reason.CLUSTER_UNREACHABLE)]
)
def test_a_refused_log_says_why(status: int, reason: Reason) -> None:
    given = Reason.FORBIDDEN if status == 403 else Reason.CLUSTER_UNREACHABLE
    with pytest.raises(LineStreamError) as caught:
        list(follow(Logs(connections=[ClusterError(given, f"HTTP {status}", status)])))
    assert caught.value.reason is reason


def test_a_closed_stream_ends_without_a_word() -> None:
    stream = follow(Logs(connections=[Connection(line(1) + line(2))]))
    got = []
    for value in stream:
        got.append(value)
        stream.close()
    assert got[0] == {"n": 1}
    assert not stream.ended


PROGRAM = """
import sys, time
sys.path.insert(0, '/gpuproof')
from workloads.line_stream import LineWriter
lines = LineWriter()
for number in range(3):
    lines.write({"n": number, "text": "x" * 9000})
    print("not ours", number, flush=True)
if sys.argv[1] == "ends":
    lines.end()
"""


def test_a_real_pod_is_followed_to_its_end_and_a_killed_one_is_told() -> None:
    with simulated("light-1") as sim:
        namespace = sim.renderer.namespace
        sim.cluster.create(Resource("api/v1", "configmaps"), sim.renderer.sources("line_stream"), namespace=namespace)
        for name in ("ends", "breaks"):
            sim.cluster.create(Resource("api/v1", "pods"), pod_of(name), namespace=namespace)
        values = list(LineStream(sim.cluster, namespace, "ends", "measure"))
        assert [value["n"] for value in values] == [0, 1, 2]
        assert {len(value["text"]) for value in values} == {9000}
        with pytest.raises(LineStreamError, match="without ending its stream: Completed with exit code 0"):
            list(LineStream(sim.cluster, namespace, "breaks", "measure"))


def pod_of(name: str) -> dict[str, Any]:
    container = {
        "name": "measure",
        "image": "simcluster.local/python:3",
        "command": ["python3", "-c", PROGRAM, name],
        "volumeMounts": [{"name": "sources", "mountPath": "/gpuproof/workloads"}],
    }
    volumes = [{"name": "sources", "configMap": {"name": "sources-line-stream"}}]
    spec = {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}
    spec["tolerations"] = [{"operator": "Exists"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_another_pod_of_the_same_name_is_not_read_as_this_one() -> None:
    ended = Connection(line(1) + "\n")
    cluster = Logs({}, connections=[ended, Connection(line(1, '{"n":7}') + "\n")])
    with pytest.raises(LineStreamError) as caught:
        list(LineStream(cluster, "ns", "pod-0", "measure", uid="an-earlier-one", patience=HASTY))
    assert caught.value.reason is Reason.POD_DELETED
    cluster.connections = [ended, Connection(line(1, '{"n":7}') + "\n")]
    with pytest.raises(LineStreamError) as caught:
        list(LineStream(cluster, "ns", "pod-0", "measure", uid="this-one", patience=HASTY))
    assert caught.value.reason is Reason.MALFORMED_MEASUREMENT, "the same pod, whose container began anew"
