"""Subresources that are no part of an object: log, exec, proxy, eviction, binding, scale, tokens.

Owns which does what. It must not know how a kubelet carries it out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from simcluster.api import errors
from simcluster.api.auth.tokens import TokenTable
from simcluster.api.evictions import Evictions
from simcluster.api.kinds import Kind
from simcluster.api.metadata import timestamp
from simcluster.api.patches import merge_patch
from simcluster.api.port import ApiError, Kubelet, KubeletRegistry, Object
from simcluster.api.resources import Resources
from simcluster.api.selectors import label_selector_text
from simcluster.api.wire import codec, logs, options
from simcluster.api.wire import exec as execs
from simcluster.api.wire.call import Call, decode

Handler = Callable[[Call, Kind], Awaitable[web.StreamResponse]]

_TOKEN_S = 3600


class Subresources:
    """Answers requests to subresources."""

    def __init__(self, resources: Resources, registry: KubeletRegistry, tokens: TokenTable) -> None:
        self._resources = resources
        self._registry = registry
        self._tokens = tokens
        self._evictions = Evictions(resources)
        self._handlers: dict[str, Handler] = {
            "log": self._log,
            "exec": self._exec,
            "attach": self._exec,
            "proxy": self._proxy,
            "eviction": self._evict,
            "binding": self._bind,
            "scale": self._scale,
            "token": self._token,
        }

    def handler(self, name: str) -> Handler | None:
        """What answers a subresource; None for those that are parts of the object."""
        return self._handlers.get(name)

    def _kubelet(self, pod: Object) -> Kubelet:
        node = pod["spec"].get("nodeName", "")
        kubelet = self._registry.find(node)
        if kubelet is None:
            text = f'error dialing backend: dial tcp: lookup {node}: the kubelet of node "{node}" does not answer'
            raise ApiError(502, "InternalError", text)
        return kubelet

    async def _log(self, call: Call, kind: Kind) -> web.StreamResponse:
        name = call.target.name
        pod = self._resources.find(kind, name, call.target.namespace).obj
        wanted = logs.options(call, name)
        container = logs.container_of(pod, call.query.get("container", ""))
        if not pod["spec"].get("nodeName"):
            return web.Response(status=204)
        logs.check_started(pod, container, wanted)
        return await logs.stream(call, self._kubelet(pod), name, container, wanted)

    async def _exec(self, call: Call, kind: Kind) -> web.StreamResponse:
        name = call.target.name
        pod = self._resources.find(kind, name, call.target.namespace).obj
        container = logs.container_of(pod, call.query.get("container", ""))
        if not pod["spec"].get("nodeName"):
            raise errors.bad_request(f"pod {name} does not have a host assigned")
        execs.check_upgrade(call)
        if not _running(pod, container):
            return web.Response(status=500, text=f'container not found ("{container}")')
        protocol = execs.requested(call)
        tty, kubelet = options.flag(call.query, "tty"), self._kubelet(pod)
        if call.target.subresource == "attach":
            return await execs.serve(call, execs.attached(call, kubelet, name, container), protocol=protocol, tty=tty)

        async def start(channels: execs.Channels) -> int:
            command = list(call.commands)
            return await kubelet.exec(call.target.namespace, name, container, command, channels, tty=tty)

        return await execs.serve(call, start, protocol=protocol, tty=tty)

    async def _proxy(self, call: Call, kind: Kind) -> web.StreamResponse:
        pod, port = self._proxied(call, kind)
        kubelet = self._kubelet(pod)
        request = call.request
        path = call.target.rest or "/"
        if request.query_string:
            path = f"{path}?{request.query_string}"
        hidden = ("authorization", "host", "connection", "content-length", "transfer-encoding", "upgrade")
        headers = {key: value for key, value in request.headers.items() if key.lower() not in hidden}
        metadata = pod["metadata"]
        answer = await kubelet.proxy(
            metadata["namespace"], metadata["name"], port, request.method, path, headers, await call.body()
        )
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in (*hidden, "content-encoding", "date")}
        return web.Response(status=answer.status, headers=kept, body=answer.body)

    def _proxied(self, call: Call, kind: Kind) -> tuple[Object, int]:
        parts = call.target.name.split(":")
        if parts[0] in ("http", "https") and len(parts) == 3:
            parts = parts[1:]
        name, port = parts[0], parts[1] if len(parts) > 1 else ""
        found = self._resources.find(kind, name, call.target.namespace).obj
        if kind.name == "pods":
            return found, int(port) if port.isdigit() else _first_port(found)
        if kind.name == "services":
            return self._behind(found, port)
        raise errors.method_not_allowed()

    def _behind(self, service: Object, port: str) -> tuple[Object, int]:
        metadata = service["metadata"]
        pods = self._resources.kinds.named("pods")
        endpoints = self._resources.store.collection("endpoints").get(metadata["namespace"], metadata["name"])
        for subset in (endpoints.obj.get("subsets") or []) if endpoints is not None else []:
            for address in subset.get("addresses") or []:
                target = address.get("targetRef") or {}
                if target.get("kind") == "Pod" and pods is not None:
                    pod = self._resources.find(pods, target["name"], metadata["namespace"]).obj
                    return pod, _target_port(service, subset, port)
        text = f'no endpoints available for service "{metadata["name"]}"'
        raise ApiError(503, "ServiceUnavailable", text)

    async def _evict(self, call: Call, _kind: Kind) -> web.StreamResponse:
        body = await call.body()
        eviction = Kind("policy", "v1", "evictions", "Eviction", namespaced=True)
        given = decode(eviction, body, call.content_type)
        wanted = options.delete(call.query, codec.dumps(given.get("deleteOptions") or {}))
        return call.json(self._evictions.evict(call.target.namespace, call.target.name, wanted), 201)

    async def _bind(self, call: Call, _kind: Kind) -> web.StreamResponse:
        binding = Kind("", "v1", "bindings", "Binding", namespaced=True)
        given = decode(binding, await call.body(), call.content_type)
        self._resources.bind(call.target.namespace, call.target.name, (given.get("target") or {}).get("name", ""))
        return call.json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)

    async def _scale(self, call: Call, kind: Kind) -> web.StreamResponse:
        name, namespace = call.target.name, call.target.namespace
        found = self._resources.find(kind, name, namespace).obj
        method = call.request.method
        if method == "GET":
            return call.json(_scale_of(found))
        shape = Kind("autoscaling", "v1", "scales", "Scale", namespaced=True)
        if method == "PATCH":
            patch = decode(shape, await call.body(), codec.JSON)
            wanted: dict[str, Any] = merge_patch(_scale_of(found), patch)
        else:
            wanted = decode(shape, await call.body(), call.content_type)
        replicas = int((wanted.get("spec") or {}).get("replicas", 0))

        def change(obj: Object) -> Object:
            return {**obj, "spec": {**obj["spec"], "replicas": replicas}}

        write = options.write(call.query, call.agent, call.warnings)
        return call.json(_scale_of(self._resources.modify(kind, name, namespace, change, options=write).obj))

    async def _token(self, call: Call, kind: Kind) -> web.StreamResponse:
        shape = Kind("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest", namespaced=True)
        given = decode(shape, await call.body(), call.content_type)
        account = self._resources.find(kind, call.target.name, call.target.namespace).obj["metadata"]
        spec = given.get("spec") or {}
        lifetime = int(spec.get("expirationSeconds") or _TOKEN_S)
        token = self._tokens.issue_service_account(
            account["namespace"], account["name"], account["uid"], lifetime_s=lifetime
        )
        status = {"token": token, "expirationTimestamp": timestamp()}
        metadata = {"name": account["name"], "namespace": account["namespace"], "creationTimestamp": timestamp()}
        answer = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata}
        return call.json({**answer, "spec": spec, "status": status}, 201)


def _running(pod: Object, container: str) -> bool:
    status = pod.get("status") or {}
    for group in ("containerStatuses", "initContainerStatuses"):
        for found in status.get(group) or []:
            if found["name"] == container:
                return "running" in (found.get("state") or {})
    return False


def _first_port(pod: Object) -> int:
    for container in pod["spec"].get("containers") or []:
        for port in container.get("ports") or []:
            return int(port["containerPort"])
    return 80


def _target_port(service: Object, subset: Object, port: str) -> int:
    for found in service["spec"].get("ports") or []:
        if port in ("", str(found["port"]), found.get("name", "")):
            target = found.get("targetPort", found["port"])
            if isinstance(target, int):
                return target
            break
    return int(subset["ports"][0]["port"])


def _scale_of(obj: Object) -> Object:
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": obj["spec"].get("replicas", 0)},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": label_selector_text(obj["spec"].get("selector")),
        },
    }
