"""Keeps Endpoints and EndpointSlices of Services with a selector in step with the pods behind them.

Owns these objects; must not know how names or connections are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_KEY = "kubernetes.io/service-name"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
MOST_A_SLICE = 1000
Key = tuple[str, str]


class EndpointsController:
    """Looks at a Service shortly after it or one of its pods changed."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._settle_s = timing.s(0.2)
        self._services = informers.of("services")
        self._pods = informers.of("pods")
        self._by_namespace: dict[str, set[str]] = {}
        self._pods_in: dict[str, dict[str, Object]] = {}
        self._slices = informers.of(SLICES)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="endpoints", retry_first_s=timing.s(0.5), retry_max_s=timing.s(30.0)
        )
        self._services.on_change(self._on_service)
        self._pods.on_change(self._on_pod)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.stop()

    def _on_service(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        names = self._by_namespace.setdefault(fields.namespace(obj), set())
        if new is None:
            names.discard(fields.name(obj))
        else:
            names.add(fields.name(obj))
        self._queue.add_after(fields.key(obj), self._settle_s)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        pods = self._pods_in.setdefault(fields.namespace(obj), {})
        if new is None:
            pods.pop(fields.name(obj), None)
        else:
            pods[fields.name(obj)] = new
        names = self._by_namespace.get(fields.namespace(obj))
        if not names or (old is not None and new is not None and _facts(old) == _facts(new)):
            return
        for name in names:
            service = self._services.items.get((fields.namespace(obj), name))
            states = [pod for pod in (old, new) if pod is not None]
            if service is not None and any(_selects(service, pod) for pod in states):
                self._queue.add_after(fields.key(service), self._settle_s)

    async def _sync(self, key: Key) -> None:
        service = self._services.items.get(key)
        if service is None or not fields.spec(service).get("selector"):
            await self._drop(key)
            return
        pods = [pod for pod in self._pods_in.get(key[0], {}).values() if _selects(service, pod) and _addressable(pod)]
        await self._write_slices(service, pods)
        await self._write_endpoints(service, pods)

    async def _drop(self, key: Key) -> None:
        if self._services.items.get(key) is not None:
            return
        try:
            await self._client.delete("endpoints", key[1], key[0])
        except ApiError as error:
            if error.code != 404:
                raise

    async def _write_slices(self, service: Object, pods: Sequence[Object]) -> None:
        namespace, name = fields.key(service)
        found = await self._client.list(SLICES, namespace, label_selector=f"{SERVICE_KEY}={name}")
        present = sorted(found.items, key=fields.version)
        endpoints = _in_known_order([_endpoint(service, pod) for pod in pods], present)
        chunks = [endpoints[i : i + MOST_A_SLICE] for i in range(0, len(endpoints), MOST_A_SLICE)] or [[]]
        for position, chunk in enumerate(chunks):
            if position < len(present):
                await self._update_slice(service, present[position], chunk)
            else:
                await self._client.create(SLICES, _slice(service, chunk), namespace)
        for surplus in present[len(chunks) :]:
            await delete_if_there(self._client, SLICES, surplus)

    async def _update_slice(self, service: Object, present: Object, endpoints: list[Object]) -> None:
        ports = _ports(service)
        if (present.get("endpoints") or []) == endpoints and (present.get("ports") or []) == ports:
            return
        notes = {**fields.notes(present), TRIGGER: clock.stamp()}
        changed = {**present, "metadata": {**present["metadata"], "annotations": notes}}
        await self._client.update(SLICES, {**changed, "endpoints": endpoints, "ports": ports})

    async def _write_endpoints(self, service: Object, pods: Sequence[Object]) -> None:
        namespace, name = fields.key(service)
        wanted = _endpoints(service, pods)
        try:
            present = await self._client.get("endpoints", name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create("endpoints", wanted, namespace)
            return
        if (present.get("subsets") or []) != wanted["subsets"]:
            await self._client.update("endpoints", {**present, "subsets": wanted["subsets"]})


def _selects(service: Object, pod: Object) -> bool:
    selector: dict[str, str] = fields.spec(service).get("selector") or {}
    labels = fields.labels(pod)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _facts(pod: Object) -> tuple[object, ...]:
    ip = fields.status(pod).get("podIP")
    return ip, fields.ready(pod), fields.deleting(pod), fields.terminal(pod), fields.labels(pod)


def _addressable(pod: Object) -> bool:
    return bool(fields.status(pod).get("podIP")) and not fields.terminal(pod)


def _early(service: Object) -> bool:
    return bool(fields.spec(service).get("publishNotReadyAddresses"))


def _target(pod: Object) -> Object:
    return {"kind": "Pod", "namespace": fields.namespace(pod), "name": fields.name(pod), "uid": fields.uid(pod)}


def _hostname(service: Object, pod: Object) -> dict[str, str]:
    spec = fields.spec(pod)
    named = spec.get("hostname") and spec.get("subdomain") == fields.name(service)
    return {"hostname": spec["hostname"]} if named else {}


def _endpoint(service: Object, pod: Object) -> Object:
    ready, leaving = fields.ready(pod), fields.deleting(pod)
    return {
        "addresses": [fields.status(pod)["podIP"]],
        "conditions": {
            "ready": _early(service) or (ready and not leaving),
            "serving": ready,
            "terminating": leaving,
        },
        **_hostname(service, pod),
        "nodeName": fields.node_of(pod),
        "targetRef": _target(pod),
    }


def _in_known_order(endpoints: list[Object], present: Sequence[Object]) -> list[Object]:
    """Endpoints that are already listed keep their place, new ones follow."""
    known = [e["targetRef"]["uid"] for each in present for e in each.get("endpoints") or () if e.get("targetRef")]
    place = {uid: position for position, uid in enumerate(known)}
    return sorted(endpoints, key=lambda endpoint: place.get(endpoint["targetRef"]["uid"], len(place)))


def _ports(service: Object) -> list[Object]:
    ports: list[dict[str, Any]] = fields.spec(service).get("ports") or []
    return [
        {
            "name": port.get("name", ""),
            "protocol": port.get("protocol", "TCP"),
            "port": port["targetPort"] if isinstance(port.get("targetPort"), int) else port["port"],
        }
        for port in ports
    ]


def _slice(service: Object, endpoints: list[Object]) -> Object:
    name = fields.name(service)
    headless = {HEADLESS: ""} if fields.spec(service).get("clusterIP") == "None" else {}
    owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": fields.uid(service)}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name}-",
            "labels": {"endpointslice.kubernetes.io/managed-by": MANAGER, SERVICE_KEY: name, **headless},
            "annotations": {TRIGGER: clock.stamp()},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": _ports(service),
    }


def _endpoints(service: Object, pods: Sequence[Object]) -> Object:
    addresses: dict[str, list[Object]] = {"addresses": [], "notReadyAddresses": []}
    for pod in pods:
        if fields.deleting(pod) and not _early(service):
            continue
        kind = "addresses" if fields.ready(pod) or _early(service) else "notReadyAddresses"
        address = {"ip": fields.status(pod)["podIP"], **_hostname(service, pod), "nodeName": fields.node_of(pod)}
        addresses[kind].append({**address, "targetRef": _target(pod)})
    subset: Object = {kind: found for kind, found in addresses.items() if found}
    if subset and _ports(service):
        subset["ports"] = _ports(service)
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": fields.name(service), "labels": fields.labels(service)},
        "subsets": [subset] if subset else [],
    }
