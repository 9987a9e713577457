"""What the harness needs of a cluster: raw JSON in and out, resumable watches, counted requests.

It must not know a client library, a limit or a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuproof.cluster.raw import Raw
from gpuproof.failure import Reason


class ClusterError(Exception):
    """The cluster did not do what was asked.

    `reason` says in the harness's words why (`cluster_unreachable`, `forbidden`, `quota_exceeded`, `harness_error`),
    `status` is the HTTP status or None where no answer came; `retry_after_s` is what the server asked for.
    """

    def __init__(
        self, reason: Reason, message: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def answered(self) -> bool:
        """Whether the API server itself said so, and not a proxy in its place or nobody."""
        return self.status is not None and self.status not in (502, 503, 504)


@dataclass(frozen=True)
class Resource:
    """A kind of object by its place in the API: `prefix` such as "api/v1" or "apis/batch/v1", and its plural."""

    prefix: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path, starting with a slash."""
        parts = [self.prefix]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


NAMESPACES = Resource("api/v1", "namespaces")
NODES = Resource("api/v1", "nodes")
PODS = Resource("api/v1", "pods")
EVENTS = Resource("api/v1", "events")
CONFIG_MAPS = Resource("api/v1", "configmaps")
SERVICES = Resource("api/v1", "services")
VOLUMES = Resource("api/v1", "persistentvolumes")
STORAGE_CLASSES = Resource("apis/storage.k8s.io/v1", "storageclasses")
SECRETS = Resource("api/v1", "secrets")
CLAIMS = Resource("api/v1", "persistentvolumeclaims")
JOBS = Resource("apis/batch/v1", "jobs")
JOB_SETS = Resource("apis/jobset.x-k8s.io/v1alpha2", "jobsets")
TRAINING_RUNTIMES = Resource("apis/trainer.kubeflow.org/v1alpha1", "trainingruntimes")
TRAIN_JOBS = Resource("apis/trainer.kubeflow.org/v1alpha1", "trainjobs")
VOLCANO_JOBS = Resource("apis/batch.volcano.sh/v1alpha1", "jobs")
POD_GROUPS = Resource("apis/scheduling.volcano.sh/v1beta1", "podgroups")
LOCAL_QUEUES = Resource("apis/kueue.x-k8s.io/v1beta1", "localqueues")
WORKLOADS = Resource("apis/kueue.x-k8s.io/v1beta1", "workloads")


@dataclass(frozen=True)
class WatchEvent:
    """One change: `type` is ADDED, MODIFIED or DELETED. A DELETED that a re-list found out has only metadata."""

    type: str
    object: Raw


@dataclass(frozen=True)
class Listing:
    """The answer to a list: objects and the version a watch may go on from."""

    items: tuple[Raw, ...]
    resource_version: str


@dataclass(frozen=True)
class Counters:
    """What the harness cost the API server so far: requests sent and bytes of answers received."""

    requests: int
    bytes_received: int


@dataclass(frozen=True)
class Page:
    """What a pod's or Service's own HTTP server answered through the API: any status, and the whole body."""

    status: int
    content_type: str
    body: bytes


class Watch(Protocol):
    """An endless iterator of changes; `close` ends it from any thread, also while it waits."""

    def __iter__(self) -> Iterator[WatchEvent]: ...

    @property
    def live(self) -> bool:
        """Whether changes can arrive now; False while it is being opened, or waits to be opened anew."""
        ...

    def close(self) -> None: ...


class LogStream(Protocol):
    """One open answer to a request for a log: bytes until the server ends it."""

    def chunks(self) -> Iterator[bytes]:
        """Bytes as they arrive; raises `ClusterError` when the connection breaks or says nothing for too long."""
        ...

    def interrupt(self) -> None:
        """End it from any thread, also while another one waits in `chunks`."""
        ...

    def close(self) -> None:
        """Give it up; called by the thread that reads."""
        ...


class Cluster(Protocol):
    """A Kubernetes API. Every method raises `ClusterError` and nothing else; all are safe to call from any thread."""

    @property
    def name(self) -> str:
        """How the person who runs this calls the cluster (its context, else its address)."""
        ...

    @property
    def counters(self) -> Counters: ...

    def server_version(self) -> str:
        """The server's gitVersion, e.g. "v1.36.2"."""
        ...

    def list_objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Everything there is, in one or more pages; an answer that is no list is an error and never an empty one."""
        ...

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw: ...

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        """Create it; a repeated attempt after a lost answer that finds it there counts as done."""
        ...

    def annotate(self, resource: Resource, name: str, annotations: Mapping[str, str], *, namespace: str) -> Raw:
        """Set annotations of an object and leave all else as it is."""
        ...

    def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        """Merge `body` into the object (RFC 7386); repeated after a lost answer."""
        ...

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        grace_s: int | None = None,
        foreground: bool = False,
    ) -> Raw:
        """Delete it and what it owns, in the background; an absent object is no error and answers {}.

        In the `foreground` the object stays until all that it owns is gone.
        """
        ...

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        known: Iterable[tuple[str, str]] = (),
    ) -> Watch:
        """Changes from `resource_version` on (or from everything present, when empty).

        `known` are the (namespace, name) pairs the caller already has: a re-list then reports those that vanished.
        """
        ...

    def evict(self, namespace: str, pod: str) -> None:
        """Ask for the pod's eviction (policy/v1), with the pod's own grace period."""
        ...

    def execute(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> int | None:
        """Run a command in a container and wait for its end; its exit code, None where the server did not say."""
        ...

    def follow_log(self, namespace: str, pod: str, container: str, *, since: str = "") -> LogStream:
        """A container's log from its beginning, or from about `since` (RFC 3339) on, and what is written from now on.

        Each line begins with its time stamp and a blank. One attempt: who follows resumes.
        """
        ...

    def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str: ...

    def proxy_get(
        self,
        resource: Resource,
        name: str,
        port: int,
        path: str,
        *,
        namespace: str,
        accept: str,
        deadline_s: float,
        max_bytes: int,
        query: Sequence[tuple[str, str]] = (),
    ) -> Page:
        """One GET to a pod (`PODS`) or Service (`SERVICES`) by the API's proxy; asked once, never again.

        `ClusterError` where no whole answer came within `deadline_s` in all, or where it is longer than `max_bytes`.
        """
        ...

    def may(self, verb: str, resource: Resource, *, namespace: str | None = None) -> bool:
        """Whether the credentials may do this (SelfSubjectAccessReview)."""
        ...

    def close(self) -> None: ...
