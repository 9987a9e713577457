"""A cluster as the contract cases see it: paths, namespaces of their own, a container image, deadlines that fit it.

Owns names, clean-up and the small vocabulary of the cases. It must not know whether it talks to a simulation, except
for the time scale and the default image.
"""

from __future__ import annotations

import itertools
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.http import Access, Answer, Http, Json, Recorder, access_of
from tests.contract.waiting import until

CORE = "/api/v1"
BATCH = "/apis/batch/v1"
APPS = "/apis/apps/v1"
POLICY = "/apis/policy/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GROUPS = {
    "jobs": BATCH,
    "daemonsets": APPS,
    "deployments": APPS,
    "poddisruptionbudgets": POLICY,
    "roles": RBAC,
    "rolebindings": RBAC,
    "endpointslices": "/apis/discovery.k8s.io/v1",
}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Cluster:
    """A cluster under test. `scale` is 1 on a real cluster; waits are `s(seconds a real cluster may need)`."""

    http: Http
    kubeconfig: Path
    image: str
    scale: float
    simulated: bool
    kubectl_binary: str | None

    def s(self, real_s: float) -> float:
        """A deadline in seconds: a real cluster's, scaled, plus what processes take on a busy machine."""
        return real_s * self.scale + 20.0

    def namespace(self, *, labels: Mapping[str, str] | None = None, prefix: str = "contract") -> Namespace:
        """A fresh namespace that already has its default service account."""
        name = f"{prefix}-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(3)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        answer = self.http.request("POST", f"{CORE}/namespaces", body)
        assert answer.code == 201, answer.text
        namespace = Namespace(self, name)
        until(
            lambda: namespace.get("serviceaccounts", "default").code == 200, self.s(10), "the default service account"
        )
        return namespace

    def nodes(self) -> list[Json]:
        """All node objects."""
        found: list[Json] = self.http.request("GET", f"{CORE}/nodes").json["items"]
        return found

    def workers(self) -> list[str]:
        """Names of nodes that a pod which tolerates everything may run on: ready, and no control plane among others."""
        found = [
            node["metadata"]["name"]
            for node in self.nodes()
            if "node-role.kubernetes.io/control-plane" not in (node["metadata"].get("labels") or {})
        ]
        return found or [node["metadata"]["name"] for node in self.nodes()]

    def kubectl(
        self, *words: str, stdin: str | None = None, check: bool = True, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a real kubectl; `check` asserts exit code 0."""
        assert self.kubectl_binary is not None
        done = subprocess.run(
            [self.kubectl_binary, "--kubeconfig", str(self.kubeconfig), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}{done.stdout}"
        return done


def collection(resource: str, namespace: str | None) -> str:
    """The path of a resource's collection."""
    group = _GROUPS.get(resource, CORE)
    return f"{group}/namespaces/{namespace}/{resource}" if namespace else f"{group}/{resource}"


@dataclass(frozen=True)
class Namespace:
    """One namespace; all calls are relative to it."""

    cluster: Cluster
    name: str
    http: Http = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "http", self.cluster.http)

    def path(self, resource: str, *more: str) -> str:
        """`…/namespaces/NAME/RESOURCE[/more]`."""
        return "/".join((collection(resource, self.name), *more))

    def get(self, resource: str, name: str, **options: Any) -> Answer:
        """GET one object."""
        return self.http.request("GET", self.path(resource, name), **options)

    def read(self, resource: str, name: str) -> Json:
        """One object that must be there."""
        answer = self.get(resource, name)
        assert answer.code == 200, answer.text
        return answer.json

    def listing(self, resource: str, **query: Any) -> Json:
        """The list object."""
        answer = self.http.request("GET", self.path(resource), query=query)
        assert answer.code == 200, answer.text
        return answer.json

    def items(self, resource: str, **query: Any) -> list[Json]:
        """The items of a list."""
        found: list[Json] = self.listing(resource, **query)["items"]
        return found

    def post(self, resource: str, body: Json, **options: Any) -> Answer:
        """POST to the collection."""
        return self.http.request("POST", self.path(resource), body, **options)

    def create(self, resource: str, body: Json, **options: Any) -> Json:
        """POST that must succeed; the object as stored."""
        answer = self.post(resource, body, **options)
        assert answer.code == 201, f"{answer.code} {answer.text}"
        return answer.json

    def put(self, resource: str, name: str, body: Json, *more: str, **options: Any) -> Answer:
        """PUT one object."""
        return self.http.request("PUT", self.path(resource, name, *more), body, **options)

    def patch(self, resource: str, name: str, body: Json, kind: str = "merge", *more: str, **options: Any) -> Answer:
        """PATCH one object; `kind` is json, merge, strategic or apply."""
        content_type = {
            "json": "application/json-patch+json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }[kind]
        return self.http.request("PATCH", self.path(resource, name, *more), body, content_type=content_type, **options)

    def delete(self, resource: str, name: str, body: Json = None, **query: Any) -> Answer:
        """DELETE one object."""
        return self.http.request("DELETE", self.path(resource, name), body, query=query)

    def watch(self, resource: str, **query: Any) -> Recorder:
        """A watch that is collected in the background."""
        return Recorder(self.http.stream(self.path(resource), {"watch": "1", **query}))

    def events(self, name: str | None = None, reason: str | None = None) -> list[Json]:
        """Core events, of one object and one reason if given."""
        found = self.items("events")
        return [
            event
            for event in found
            if (name is None or event["involvedObject"].get("name") == name)
            and (reason is None or event["reason"] == reason)
        ]

    def wait(self, resource: str, name: str, test: Callable[[Json], Any], real_s: float = 60.0) -> Json:
        """The object, once `test` is true of it; fails with its last state after the deadline."""
        last: list[Json] = []

        def look() -> Json | None:
            answer = self.get(resource, name)
            last[:] = [answer.json]
            return answer.json if answer.code == 200 and test(answer.json) else None

        found: Json = until(look, self.cluster.s(real_s), lambda: f"{resource} {name}; last: {last}; {self._around()}")
        return found

    def _around(self) -> str:
        """What else there is in the namespace, for the message of a wait that was in vain."""
        pods = {pod["metadata"]["name"]: (pod["spec"].get("nodeName"), pod["status"]) for pod in self.items("pods")}
        warnings = [event["message"] for event in self.items("events") if event.get("type") == "Warning"]
        nodes = {node["metadata"]["name"]: node["spec"].get("taints") for node in self.cluster.nodes()}
        return f"pods: {pods}; warnings: {warnings}; nodes: {nodes}"

    def gone(self, resource: str, name: str, real_s: float = 60.0) -> None:
        """Wait until the object is not there."""
        until(lambda: self.get(resource, name).code == 404, self.cluster.s(real_s), f"{resource} {name} is gone")

    def finished(self, pod: str, real_s: float = 90.0) -> Json:
        """The pod, once its phase is final."""
        return self.wait("pods", pod, lambda found: phase(found) in {"Succeeded", "Failed"}, real_s)

    def running(self, pod: str, real_s: float = 90.0) -> Json:
        """The pod, once it runs and is ready."""
        return self.wait("pods", pod, lambda found: condition(found, "Ready", "status") == "True", real_s)

    def job_pods(self, job: str) -> list[Json]:
        """Pods of a Job, by completion index, then by age."""
        found = self.items("pods", labelSelector=f"batch.kubernetes.io/job-name={job}")
        return sorted(found, key=lambda pod: (index_of(pod), pod["metadata"]["creationTimestamp"]))

    def job_done(self, job: str, real_s: float = 120.0) -> Json:
        """The Job, once it is Complete or Failed."""
        return self.wait("jobs", job, lambda found: verdict(found) is not None, real_s)

    def log(self, pod: str, **query: Any) -> Answer:
        """The log subresource."""
        return self.http.request("GET", self.path("pods", pod, "log"), query=query, accept="*/*")

    def evict(self, pod: str, **more: Any) -> Answer:
        """POST an eviction."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.name},
            **more,
        }
        return self.http.request("POST", self.path("pods", pod, "eviction"), body)

    def drop(self) -> None:
        """Delete the namespace, pods first and without grace, and do not wait."""
        self.http.request("DELETE", self.path("pods"), query={"gracePeriodSeconds": 0})
        self.http.request("DELETE", f"{CORE}/namespaces/{self.name}")


def phase(pod: Json) -> str:
    """status.phase."""
    return str(pod.get("status", {}).get("phase", ""))


def condition(obj: Json, kind: str, key: str = "status") -> str | None:
    """A key of the condition of that type, or None; conditions have no fixed order."""
    for found in obj.get("status", {}).get("conditions") or []:
        if found["type"] == kind:
            value: str | None = found.get(key)
            return value
    return None


def container(pod: Json, name: str = "c", field_name: str = "containerStatuses") -> Json:
    """A container's status by name, or an empty object; containerStatuses have no fixed order."""
    for found in pod.get("status", {}).get(field_name) or []:
        if found["name"] == name:
            return found
    return {}


def terminated(pod: Json, name: str = "c") -> Json:
    """state.terminated of a container, or an empty object."""
    return container(pod, name).get("state", {}).get("terminated") or {}


def waiting(pod: Json, name: str = "c") -> str:
    """state.waiting.reason of a container, or nothing."""
    return str((container(pod, name).get("state", {}).get("waiting") or {}).get("reason", ""))


def verdict(job: Json) -> str | None:
    """Complete or Failed, or None while the Job is neither."""
    return next((word for word in ("Complete", "Failed") if condition(job, word) == "True"), None)


def index_of(pod: Json) -> int:
    """The completion index, -1 where the pod has none."""
    return int((pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", -1))


def open_cluster(kubeconfig: Path, image: str, scale: float, simulated: bool, kubectl_binary: str | None) -> Cluster:
    """A cluster by its kubeconfig."""
    access: Access = access_of(kubeconfig)
    return Cluster(Http(access), kubeconfig, image, scale, simulated, kubectl_binary)


@dataclass(frozen=True)
class Build:
    """Builds pods and Jobs for one cluster: its image, tolerations that let them run anywhere."""

    image: str

    def pod_spec(self, script: str | Sequence[str], **more: Any) -> Json:
        """A pod spec with one container `c`; `script` is a shell script or a whole command."""
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "containers": [self.container("c", script)],
        }
        return {**spec, **more}

    def container(self, name: str, script: str | Sequence[str], **more: Any) -> Json:
        """One container."""
        command = ["sh", "-c", script] if isinstance(script, str) else list(script)
        return {"name": name, "image": self.image, "command": command, **more}

    def pod(self, name: str, script: str | Sequence[str], labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
        """A pod."""
        metadata = {"name": name, "labels": dict(labels or {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.pod_spec(script, **spec)}

    def job(
        self,
        name: str,
        script: str | Sequence[str],
        completions: int = 1,
        *,
        labels: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        **job: Any,
    ) -> Json:
        """An Indexed Job; `spec` goes into the pod template's spec, further keywords into the Job's."""
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": completions,
                "parallelism": completions,
                "completionMode": "Indexed",
                "template": {"metadata": {"labels": dict(labels or {})}, "spec": self.pod_spec(script, **(spec or {}))},
                **job,
            },
        }


def config_map(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": dict(data or {})}


STAYS = "trap 'exit 0' TERM; while :; do sleep 600 & wait $!; done"
"""A shell script that runs until SIGTERM and then ends 0."""


def pages(namespace: Namespace, resource: str, limit: int) -> Iterator[Json]:
    """The pages of a paged list, to the last."""
    token = ""
    while True:
        page = namespace.listing(resource, limit=limit, **({"continue": token} if token else {}))
        yield page
        token = page["metadata"].get("continue", "")
        if not token:
            return
