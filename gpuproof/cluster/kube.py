"""The port on the official `kubernetes` client: its credentials and transport, raw JSON, a timeout on every call.

The only importer of that client. It must not know jobs, measurements or verdicts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import urllib3
import websocket
from kubernetes import client, config, stream
from yaml import YAMLError

from gpuproof.cluster import deadlines, raw
from gpuproof.cluster.answers import Answer, error_of
from gpuproof.cluster.backoff import RETRIED_STATUSES, Backoff, Outage, Patience
from gpuproof.cluster.lists import an_object, listed
from gpuproof.cluster.port import ClusterError, Counters, Listing, Page, Resource, Watch
from gpuproof.cluster.watching import ResumingWatch
from gpuproof.failure import Reason

_MAX_CONNECTIONS = 16
_SERVER_WATCH_S = 3600
_REVIEWS = Resource("apis/authorization.k8s.io/v1", "selfsubjectaccessreviews")
_LOST_LOG = "unable to retrieve container logs for "

Query = Sequence[tuple[str, str]]


def connect(
    *,
    context: str | None = None,
    kubeconfig: Path | None = None,
    in_cluster: bool = False,
    patience: Patience | None = None,
) -> KubeCluster:
    """A cluster by kubeconfig (the default one when None) and context, or from inside a pod. Sends no request."""
    credentials = _Credentials(context, kubeconfig, in_cluster)
    return KubeCluster(credentials, patience or Patience())


class KubeCluster:
    """Implements `port.Cluster`. Owns the connections: call `close`."""

    def __init__(self, credentials: _Credentials, patience: Patience) -> None:
        self._credentials = credentials
        self._patience = patience
        self._outage = Outage(patience.give_up_s)
        self._lock = threading.Lock()
        self._requests = 0
        self._bytes = 0

    @property
    def name(self) -> str:
        """The context's name, else the server's address."""
        return self._credentials.name

    @property
    def counters(self) -> Counters:
        """Requests sent (each attempt counts) and bytes of bodies received."""
        with self._lock:
            return Counters(self._requests, self._bytes)

    def close(self) -> None:
        """Close every idle connection."""
        self._credentials.close()

    def server_version(self) -> str:
        """The server's gitVersion."""
        return raw.text(self._json("GET", "/version"), "gitVersion")

    def list_objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Asked for unpaged (a page more is a request more), but whoever answers in pages is followed to the end."""
        query = _selectors(label_selector, field_selector)
        path = resource.path(namespace)
        return listed(lambda more: self._json("GET", path, [*query, *more]), path)

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> raw.Raw:
        """The object; `ClusterError` with status 404 when there is none."""
        path = resource.path(namespace, name)
        return an_object(self._json("GET", path), "GET " + path)

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> raw.Raw:
        """Create it; see the port for lost answers."""
        path = resource.path(namespace)
        return an_object(self._json("POST", path, body=body), "POST " + path)

    def annotate(self, resource: Resource, name: str, annotations: Mapping[str, str], *, namespace: str) -> raw.Raw:
        """By a merge patch, which may be repeated as often as need be."""
        return self.patch(resource, name, {"metadata": {"annotations": dict(annotations)}}, namespace=namespace)

    def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str | None = None) -> raw.Raw:
        """A merge patch."""
        path = resource.path(namespace, name)
        return an_object(self._json("PATCH", path, body=body), "PATCH " + path)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        grace_s: int | None = None,
        foreground: bool = False,
    ) -> raw.Raw:
        """Delete with propagation Background or Foreground (the default for Jobs would orphan their pods)."""
        how = "Foreground" if foreground else "Background"
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            path = resource.path(namespace, name)
            return an_object(self._json("DELETE", path, body=options), "DELETE " + path)
        except ClusterError as error:
            if error.status == 404:
                return {}
            raise

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
        """See the port. Nothing is sent before the iteration starts."""
        query = _selectors(label_selector, field_selector)

        def open_stream(version: str) -> Answer:
            asked = [*query, ("watch", "true"), ("allowWatchBookmarks", "true")]
            asked += [("timeoutSeconds", str(_SERVER_WATCH_S))]
            if version:
                asked.append(("resourceVersion", version))
            return self._open_stream(resource.path(namespace), asked)

        return ResumingWatch(
            open_stream,
            lambda: self.list_objects(
                resource, namespace=namespace, label_selector=label_selector, field_selector=field_selector
            ),
            patience=self._patience,
            resource_version=resource_version,
            known=known,
            outage=self._outage,
        )

    def evict(self, namespace: str, pod: str) -> None:
        """See the port; a refusal for a disruption budget is tried again like any 429."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        self._json("POST", Resource("api/v1", "pods").path(namespace, pod, "eviction"), body=body)

    def execute(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> int | None:
        """See the port. One attempt: what a command that was cut off has done is not known."""
        with self._lock:
            self._requests += 1
        api, _ = self._credentials.current()
        # A client of its own: the websocket helper exchanges a method of the one that it is given.
        core = client.CoreV1Api(client.ApiClient(api.configuration))
        what = f"exec in {pod}"
        try:
            session = stream.stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                container=container,
                command=list(command),
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                _preload_content=False,
                _request_timeout=self._patience.call_s,
            )
            session.run_forever(timeout=self._patience.call_s)
            code = session.returncode
        except client.exceptions.ApiException as error:
            said = _refused_handshake(str(error.reason))
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"{what}: {said}", error.status or None) from error
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"{what}: {type(error).__name__}: {error}") from error
        return code if isinstance(code, int) else None

    def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str:
        """The last lines of a container's log; a lost log, which comes as a sentence in a 200, is an error."""
        path = Resource("api/v1", "pods").path(namespace, pod, "log")
        query = [("container", container), ("tailLines", str(tail_lines)), ("limitBytes", str(limit_bytes))]
        # Evidence only: an unreachable kubelet makes this a slow 500, and nobody should wait for several of those.
        once = replace(self._patience, give_up_s=0.0)
        text = self._call("GET", path, query, None, once).decode("utf-8", "replace")
        if text.startswith(_LOST_LOG):
            raise ClusterError(Reason.HARNESS_ERROR, f"the log of {pod} is lost: {text[:200]}", 200)
        return text

    def follow_log(self, namespace: str, pod: str, container: str, *, since: str = "") -> Answer:
        """See the port."""
        path = Resource("api/v1", "pods").path(namespace, pod, "log")
        query = [("container", container), ("follow", "true"), ("timestamps", "true")]
        return self._open_stream(path, [*query, ("sinceTime", since)] if since else query)

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
        query: Query = (),
    ) -> Page:
        """See the port. A 502 or 503 that the API server makes in the pod's place is a status like any other."""
        target = resource.path(namespace, f"{name}:{port}", "proxy") + path
        until = time.monotonic() + deadline_s
        answer = self._send("GET", target, query, None, read_s=deadline_s, accept=accept)
        body = answer.body(until - time.monotonic(), max_bytes)
        return Page(answer.status, answer.headers.get("Content-Type", ""), body)

    def may(self, verb: str, resource: Resource, *, namespace: str | None = None) -> bool:
        """Ask the API server itself (SelfSubjectAccessReview)."""
        group = resource.prefix.split("/")[1] if resource.prefix.startswith("apis/") else ""
        attributes = {"verb": verb, "group": group, "resource": resource.plural, "namespace": namespace or ""}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        return raw.at(self._json("POST", _REVIEWS.path(), body=body), "status", "allowed") is True

    def _open_stream(self, path: str, query: Query) -> Answer:
        """A 200 whose body is not read yet; whether other answers are tried again is the watch's decision."""
        answer = self._send("GET", path, query, None, read_s=self._patience.quiet_watch_s)
        if answer.status == 401:
            answer.body(self._patience.call_s)
            self._credentials.reload(answer.generation)
            answer = self._send("GET", path, query, None, read_s=self._patience.quiet_watch_s)
        if answer.status != 200:
            raise error_of(answer, answer.body(self._patience.call_s), "GET " + path)
        self._outage.over()
        return answer

    def _json(
        self, method: str, path: str, query: Query = (), body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        content = self._call(method, path, query, body)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ClusterError(
                Reason.HARNESS_ERROR, f"{method} {path}: the answer is not JSON: {error}", 200
            ) from error
        return answer if isinstance(answer, Mapping) else {}

    def _call(
        self,
        method: str,
        path: str,
        query: Query,
        body: Mapping[str, Any] | None,
        patience: Patience | None = None,
    ) -> bytes:
        """One request with its retries; the body of a 2xx answer."""
        backoff = Backoff(patience or self._patience, outage=self._outage)
        fresh, answer_lost = False, False
        while True:
            until = time.monotonic() + self._patience.call_s
            try:
                answer = self._send(method, path, query, body, read_s=self._patience.call_s)
                content = answer.body(until - time.monotonic())
            except ClusterError as error:
                failure, answer_lost = error, True
            else:
                if answer.status not in RETRIED_STATUSES:
                    self._outage.over()
                if 200 <= answer.status < 300:
                    return content
                if answer.status == 409 and method == "POST" and answer_lost:
                    return json.dumps({"kind": "Status", "status": "Success"}).encode()
                failure = error_of(answer, content, f"{method} {path}")
                if answer.status == 401 and not fresh:
                    fresh = True
                    self._credentials.reload(answer.generation)
                    continue
                if answer.status not in RETRIED_STATUSES:
                    raise failure
                answer_lost = answer_lost or answer.status >= 500
            if not backoff.wait(failure.retry_after_s, answered=failure.answered):
                raise failure

    def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: Mapping[str, Any] | None,
        *,
        read_s: float,
        accept: str = "application/json",
    ) -> Answer:
        with self._lock:
            self._requests += 1
        api, generation = self._credentials.current()
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            sent = api.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = api.call_api(*sent, _request_timeout=(self._patience.connect_s, read_s))
        except (urllib3.exceptions.HTTPError, client.exceptions.ApiException, OSError) as error:
            text = f"{method} {path}: no answer from {self.name}: {type(error).__name__}: {error}"
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, text) from error
        return Answer(response.response, generation, self._count_bytes)

    def _count_bytes(self, count: int) -> None:
        with self._lock:
            self._bytes += count


def _refused_handshake(reason: str) -> str:
    """What the API server said: of a refused handshake the client puts status, head and body into one sentence."""
    _, _, body = reason.rpartition("-+-+- ")
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return reason


class _Credentials:
    """Where the client's configuration comes from, and the present one; reloaded when a token has run out."""

    def __init__(self, context: str | None, kubeconfig: Path | None, in_cluster: bool) -> None:
        self._context, self._kubeconfig, self._in_cluster = context, kubeconfig, in_cluster
        self._lock = threading.Lock()
        self._generation = 0
        self._api = self._load()
        self.name = context or self._current_context() or str(self._api.configuration.host)

    def current(self) -> tuple[Any, int]:
        """The client to send with, and which reload it came from."""
        with self._lock:
            return self._api, self._generation

    def reload(self, generation: int) -> None:
        """Read the credentials again, unless another thread has done so since `generation`."""
        with self._lock:
            if self._generation != generation:
                return
            old, self._api = self._api, self._load()
            self._generation += 1
        old.rest_client.pool_manager.clear()

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            self._api.rest_client.pool_manager.clear()
            self._api.close()

    def _current_context(self) -> str:
        if self._in_cluster:
            return ""
        contexts: Any = config.list_kube_config_contexts  # untyped in the client
        _, active = contexts(str(self._kubeconfig) if self._kubeconfig else None)
        return raw.text(active, "name")

    def _load(self) -> Any:
        settings = client.Configuration()
        from_pod: Any = config.load_incluster_config  # untyped in the client
        from_file: Any = config.load_kube_config
        try:
            if self._in_cluster:
                from_pod(client_configuration=settings)
            else:
                from_file(
                    config_file=str(self._kubeconfig) if self._kubeconfig else None,
                    context=self._context,
                    client_configuration=settings,
                    persist_config=False,
                )
        except (config.ConfigException, OSError, YAMLError, KeyError, TypeError, ValueError) as error:
            where = "the pod's service account" if self._in_cluster else f"kubeconfig {self._kubeconfig or '(default)'}"
            raise ClusterError(
                Reason.CLUSTER_UNREACHABLE,
                f"no credentials from {where}: {error}. Name a readable kubeconfig and an existing context.",
            ) from error
        settings.retries = urllib3.Retry(total=False, redirect=0)
        settings.connection_pool_maxsize = _MAX_CONNECTIONS
        api = client.ApiClient(settings)
        deadlines.bound(api.rest_client.pool_manager)
        return api


def _selectors(label_selector: str, field_selector: str) -> list[tuple[str, str]]:
    pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return [pair for pair in pairs if pair[1]]
