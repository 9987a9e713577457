"""A kubelet's way to the API server, which can be shut: a frozen kubelet neither hears nor speaks, and loses nothing.

Owns the waiting. It must not know who shuts it, nor what passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from simcluster.api.port import Client, Object, ObjectList, PatchKind, Propagation, WatchEvent


class GatedClient:
    """Implements `port.Client` over another one; calls and watch events wait while the gate is shut."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        """From now on everything waits."""
        self._open.clear()

    def open(self) -> None:
        """Let everything go on."""
        self._open.set()

    @property
    def is_shut(self) -> bool:
        """Whether calls wait."""
        return not self._open.is_set()

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """As `Client.get`."""
        await self._open.wait()
        return await self._client.get(resource, name, namespace)

    async def list(
        self, resource: str, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """As `Client.list`."""
        await self._open.wait()
        return await self._client.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """As `Client.watch`; events queue up behind a shut gate."""
        await self._open.wait()
        async for event in self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        ):
            await self._open.wait()
            yield event

    async def create(self, resource: str, obj: Object, namespace: str | None = None) -> Object:
        """As `Client.create`."""
        await self._open.wait()
        return await self._client.create(resource, obj, namespace)

    async def update(self, resource: str, obj: Object, *, subresource: str = "") -> Object:
        """As `Client.update`."""
        await self._open.wait()
        return await self._client.update(resource, obj, subresource=subresource)

    async def patch(
        self,
        resource: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Object:
        """As `Client.patch`."""
        await self._open.wait()
        return await self._client.patch(resource, name, body, namespace, kind=kind, subresource=subresource)

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_s: int | None = None,
        propagation: Propagation | None = None,
        uid: str | None = None,
    ) -> Object:
        """As `Client.delete`."""
        await self._open.wait()
        return await self._client.delete(
            resource, name, namespace, grace_period_s=grace_period_s, propagation=propagation, uid=uid
        )

    async def bind(self, namespace: str, pod: str, node: str) -> None:
        """As `Client.bind`."""
        await self._open.wait()
        await self._client.bind(namespace, pod, node)
