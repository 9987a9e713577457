"""What a controller or a kubelet may do to the API: no more than any HTTP client could.

Owns the types at the joint between API server, controllers and nodes. It must not know how objects are stored.

Objects are plain JSON dictionaries. **Everyone treats them as immutable**: the store hands out its own copies without
copying them again; whoever wants to change one makes a deep copy first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Object = dict[str, Any]
"""One Kubernetes object as JSON, with apiVersion, kind, metadata. Immutable by convention."""

PatchKind = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class ApiError(Exception):
    """A refusal in Kubernetes' own terms; `body()` is the `Status` object that goes over the wire.

    `code` is the HTTP status, `reason` the machine-readable word (NotFound, AlreadyExists, Conflict, Forbidden,
    Invalid, Expired …).
    """

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details is not None else None

    def body(self) -> Object:
        """The `v1 Status` object of this refusal."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch."""

    type: EventType
    object: Object


@dataclass(frozen=True)
class ObjectList:
    """A list answer: the items and the resourceVersion at which they were all true (start a watch there)."""

    items: Sequence[Object]
    resource_version: str


class Client(Protocol):
    """In-process access with the semantics of the HTTP API: admission, validation, conflicts, finalizers, watches.

    `resource` is the plural name, with its group where that is not the core group: "pods", "nodes", "namespaces",
    "events", "jobs.batch", "daemonsets.apps", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io" …
    Every call raises `ApiError`.
    """

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object: ...

    async def list(
        self, resource: str, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList: ...

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Events after `resource_version`, without end; `ApiError(410, "Expired")` where that is too old."""
        ...

    async def create(self, resource: str, obj: Object, namespace: str | None = None) -> Object: ...

    async def update(self, resource: str, obj: Object, *, subresource: str = "") -> Object:
        """PUT; a conflict (409) where obj's resourceVersion is set and not the current one."""
        ...

    async def patch(
        self,
        resource: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Object: ...

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_s: int | None = None,
        propagation: Propagation | None = None,
        uid: str | None = None,
    ) -> Object: ...

    async def bind(self, namespace: str, pod: str, node: str) -> None:
        """POST pods/NAME/binding: sets spec.nodeName and the PodScheduled condition; 409 where it is already set."""
        ...


@dataclass(frozen=True)
class LogOptions:
    """Query parameters of the log subresource."""

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    previous: bool = False


class ExecStream(Protocol):
    """The server's side of one exec or attach: three byte streams, a resize channel, an exit."""

    async def read_stdin(self) -> bytes:
        """The next chunk of standard input; b"" at its end."""
        ...

    async def write(self, channel: Literal["stdout", "stderr"], data: bytes) -> None: ...


@dataclass(frozen=True)
class ProxyResponse:
    """An answer of a pod's own HTTP server, fetched through the proxy subresource."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Kubelet(Protocol):
    """What the API server asks of a node on behalf of a client (the kubelet's own HTTPS port in a real cluster)."""

    def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]: ...

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stream: ExecStream, *, tty: bool
    ) -> int:
        """Run the command inside the container's namespaces until it ends; its exit code."""
        ...

    async def proxy(  # one HTTP request, spelled out
        self, namespace: str, pod: str, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> ProxyResponse: ...


class KubeletRegistry:
    """Which kubelet answers for which node; nodes register at start and vanish when they are killed or frozen."""

    def __init__(self) -> None:
        self._by_node: dict[str, Kubelet] = {}

    def register(self, node: str, kubelet: Kubelet) -> None:
        """Called by a kubelet when it starts to serve."""
        self._by_node[node] = kubelet

    def unregister(self, node: str) -> None:
        """Called when a kubelet stops; asking it afterwards is a 502/504 for the client."""
        self._by_node.pop(node, None)

    def find(self, node: str) -> Kubelet | None:
        """The kubelet of a node, or None where none answers."""
        return self._by_node.get(node)


class AdmissionHook(Protocol):
    """A stand-in for an admission webhook: faults use it to alter or refuse objects before they are stored."""

    def __call__(self, resource: str, operation: Literal["CREATE", "UPDATE", "DELETE"], obj: Object) -> Object:
        """The object to store (a changed copy, or the same); raises `ApiError` to refuse it."""
        ...
