"""Exec: channels, exit codes, standard input, a cut stream."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, phase
from tests.contract.http import Json
from tests.contract.websockets import STATUS, STDERR, STDOUT, RefusedError, exec_in


@pytest.fixture(scope="module")
def pods(cluster: Cluster, build: Build) -> Iterator[Namespace]:
    """A namespace with a running pod `p`, a finished one `done` and an unscheduled one `pend`."""
    ns = cluster.namespace()
    ns.create("pods", build.pod("p", STAYS))
    ns.create("pods", build.pod("done", "true"))
    ns.create("pods", build.pod("pend", "true", nodeSelector={"no": "such"}))
    ns.running("p")
    ns.finished("done")
    yield ns
    ns.drop()


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
def test_output_comes_by_channel_and_the_status_last(pods: Namespace, protocol: str) -> None:
    session = exec_in(pods, "p", ["sh", "-c", "echo o; echo e >&2; exit 7"], protocol=protocol).read()
    assert (session.output[STDOUT], session.output[STDERR]) == (b"o\n", b"e\n")
    assert session.channels[-1] == STATUS
    assert (session.exit_code, session.close_code) == (7, 1000)
    assert session.status["reason"] == "NonZeroExitCode"


def test_success_is_a_bare_status(pods: Namespace) -> None:
    session = exec_in(pods, "p", ["true"]).read()
    assert session.status == {"metadata": {}, "status": "Success"}


def test_a_killed_command_is_137(pods: Namespace) -> None:
    assert exec_in(pods, "p", ["sh", "-c", "kill -9 $$"]).read().exit_code == 137


def test_a_command_that_is_not_there_has_no_exit_code(pods: Namespace) -> None:
    status = exec_in(pods, "p", ["nosuch"]).read().status
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)
    assert "executable file not found in $PATH" in status["message"]
    assert all("reason" not in cause for cause in status["details"]["causes"])


def test_standard_input_reaches_the_command_and_can_be_closed(pods: Namespace) -> None:
    session = exec_in(pods, "p", ["cat"], stdin="true")
    session.send(b"hello ")
    session.send(b"there")
    session.close_stdin()
    assert session.read().stdout == "hello there"
    assert session.exit_code == 0


def test_large_output_is_whole(pods: Namespace) -> None:
    session = exec_in(pods, "p", ["python3", "-c", "print('x' * 3_000_000, end='')"]).read()
    assert session.stdout == "x" * 3_000_000


def test_exec_runs_inside_the_container(pods: Namespace) -> None:
    assert exec_in(pods, "p", ["sh", "-c", "hostname; echo $KUBERNETES_SERVICE_PORT"]).read().stdout.split()[0] == "p"
    pid_1 = exec_in(pods, "p", ["python3", "-c", "print(open('/proc/1/cmdline').read())"]).read().stdout
    assert "sleep 600" in pid_1


def test_a_cut_exec_can_be_asked_again(pods: Namespace) -> None:
    script = "i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); sleep 0.05; done"
    session = exec_in(pods, "p", ["sh", "-c", script])
    session.read_some(b"3\n")
    session.cut()
    assert exec_in(pods, "p", ["echo", "again"]).read().stdout == "again\n"
    assert phase(pods.read("pods", "p")) == "Running"


def test_a_terminal_turns_line_ends_and_merges_streams(pods: Namespace) -> None:
    session = exec_in(pods, "p", ["sh", "-c", "echo o; echo e >&2"], tty="true", stderr="false", stdin="true").read()
    assert sorted(session.stdout.split("\r\n")) == ["", "e", "o"]
    assert STDERR not in session.channels


@pytest.mark.parametrize(
    ("pod", "query", "code", "text"),
    [
        ("pend", {}, 400, "pod pend does not have a host assigned"),
        ("p", {"container": "zz"}, 400, "container zz is not valid for pod p"),
        ("nobody", {}, 404, 'pods \\"nobody\\" not found'),
        ("done", {}, 500, 'container not found ("c")'),
    ],
)
def test_the_handshake_is_refused(pods: Namespace, pod: str, query: dict[str, Json], code: int, text: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        exec_in(pods, pod, ["true"], **query)
    assert refusal.value.code == code
    assert text in refusal.value.body


def test_without_an_upgrade_it_is_400(pods: Namespace) -> None:
    answer = pods.http.request("POST", pods.path("pods", "p", "exec"), query={"command": "true", "stdout": "true"})
    assert (answer.code, answer.json["message"]) == (400, "Upgrade request required")
