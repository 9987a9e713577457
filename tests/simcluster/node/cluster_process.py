"""A simulated cluster in a process of its own, and a small JSON client for it.

Owns starting and stopping; tests speak to it over HTTPS as any client would.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 20.0
Json = dict[str, Any]
T = TypeVar("T")


class RefusedError(Exception):
    """The server's Status."""

    def __init__(self, status: Json) -> None:
        super().__init__(status.get("message"))
        self.status = status


class Api:
    """GET, POST, PATCH, DELETE of JSON."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server: str = cluster["server"]
        self._context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        self._token: str = config["users"][0]["user"]["token"]

    def raw(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> bytes:
        """The answer's bytes; raises `RefusedError`."""
        request = urllib.request.Request(
            self._server + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
                data: bytes = answer.read()
                return data
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(json.loads(error.read())) from error

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of a streaming answer, until the server ends it."""
        request = urllib.request.Request(self._server + path, headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
            yield from answer

    def call(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """The answer's JSON."""
        answer: Json = json.loads(self.raw(method, path, body, kind))
        return answer


def wait_for(ask: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """The first answer that is not None (or false)."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.03)
    raise AssertionError(f"not within {patience_s} s: {what}")


class SimulatedCluster:
    """A running one."""

    def __init__(self, process: subprocess.Popen[bytes], ready: Json) -> None:
        self.process = process
        self.ready = ready
        self.kubeconfig = Path(ready["kubeconfig"])
        self.api = Api(self.kubeconfig)


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[SimulatedCluster]:
    """`python -m simcluster serve` until the block ends."""
    process = start(directory, *arguments)
    try:
        yield SimulatedCluster(process, first_line(process))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        close(process)


def start(directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start it; the caller ends it."""
    command = [sys.executable, "-m", "simcluster", "serve", "--dir", str(directory), *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def first_line(process: subprocess.Popen[bytes]) -> Json:
    """The ready line; an assertion with standard error where there is none."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.stderr.read().decode())
    ready: Json = json.loads(line)
    return ready


def close(process: subprocess.Popen[bytes]) -> None:
    """Close its pipes."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class Namespace:
    """A namespace of one test, with helpers around its pods."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.api = cluster.api
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        wait_for(lambda: self.get("serviceaccounts", "default"), "the default service account")

    def path(self, resource: str, name: str = "") -> str:
        """A core resource's path."""
        return f"/api/v1/namespaces/{self.name}/{resource}" + (f"/{name}" if name else "")

    def get(self, resource: str, name: str) -> Json | None:
        """One object, or None."""
        try:
            return self.api.call("GET", self.path(resource, name))
        except RefusedError as refused:
            if refused.status["code"] == 404:
                return None
            raise

    def create(self, resource: str, body: Json) -> Json:
        """POST."""
        return self.api.call("POST", self.path(resource), body)

    def pod(self, name: str, containers: Json | Sequence[Json] | None = None, **spec: Any) -> Json:
        """Create a pod; a container's missing fields are filled in."""
        given = [containers] if isinstance(containers, dict) else list(containers or [{}])
        filled = [{"name": "c", "image": "simcluster.local/python:3", **item} for item in given]
        body = {
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "tolerations": [{"operator": "Exists"}],
                "containers": filled,
                **spec,
            },
        }
        return self.create("pods", body)

    def until(self, name: str, holds: Callable[[Json], object], what: str, patience_s: float = PATIENCE_S) -> Json:
        """The pod, once `holds` is true of it."""

        def ask() -> Json | None:
            pod = self.get("pods", name)
            return pod if pod is not None and holds(pod) else None

        return wait_for(ask, f"{name}: {what}", patience_s)

    def ended(self, name: str) -> Json:
        """The pod in its terminal phase."""
        return self.until(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"), "ends")

    def log(self, name: str, query: str = "") -> str:
        """The log of the pod's only container."""
        return self.api.raw("GET", self.path("pods", name) + "/log" + query).decode()

    def reasons(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about a pod."""
        events = self.api.call("GET", self.path("events"))["items"]
        return [(item["reason"], item["message"]) for item in events if item["involvedObject"]["name"] == name]

    def delete(self, name: str, grace_s: int | None = None) -> None:
        """DELETE a pod."""
        query = "" if grace_s is None else f"?gracePeriodSeconds={grace_s}"
        self.api.call("DELETE", self.path("pods", name) + query)


def state(pod: Json, container: str = "c", field: str = "containerStatuses") -> Json:
    """The state of a container."""
    found: Json = next(item for item in pod["status"].get(field, []) if item["name"] == container)["state"]
    return found


def terminated(pod: Json, container: str = "c", field: str = "containerStatuses") -> Json:
    """The terminated state of a container, {} where it is in another."""
    found: Json = state(pod, container, field).get("terminated", {})
    return found
