"""One list-and-watch a resource, shared by all controllers of this process.

Owns the informers' lifetime; must not know what a controller makes of a change.
"""

from __future__ import annotations

import asyncio

from simcluster.api.informer import Informer
from simcluster.api.port import Client


class Informers:
    """Makes an informer on first demand; controllers ask for theirs and register handlers before `start`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._by_resource: dict[str, Informer] = {}

    def of(self, resource: str) -> Informer:
        """The informer of a resource over all namespaces."""
        if resource not in self._by_resource:
            self._by_resource[resource] = Informer(self._client, resource)
        return self._by_resource[resource]

    async def start(self) -> None:
        """Fill all caches; handlers have seen every existing object when this returns."""
        await asyncio.gather(*(informer.start() for informer in self._by_resource.values()))

    async def stop(self) -> None:
        """End all watches."""
        await asyncio.gather(*(informer.stop() for informer in self._by_resource.values()))
