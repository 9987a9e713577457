"""The volumes of one pod over its life: set up with patience, and brought up to date while it runs (golden 12).

Owns the retries and the period. It must not know what a volume holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from simcluster.node.accounts import AccountTokens
from simcluster.node.context import NodeContext
from simcluster.node.sources import PodFacts
from simcluster.node.volumes import MountError, NodeStorage, VolumeBuilder

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 122.0
_REFRESH_S = 60.0
"""A real kubelet brings mounted ConfigMaps and Secrets up to date about once a minute."""
_SYNC_S = 1.0
"""And all of a pod's volumes when it syncs the pod because its object has changed (kubelet, syncPod: a change of the
pod's annotations is how people hurry it)."""


class PodVolumes:
    """`facts` tells what is known of the pod at the time of the call."""

    def __init__(self, node: NodeContext, facts: Callable[[], PodFacts], directory: Path) -> None:
        site = node.site
        self._node = node
        self._facts = facts
        self._hurried = asyncio.Event()
        scratch = node.directory / "scratch" if node.troubles.keeps_scratch else None
        storage = NodeStorage(directory / "volumes", site.claims, node.directory / "host", node.name, scratch)
        self._builder = VolumeBuilder(site.client, facts(), storage, AccountTokens(site.tokens))

    async def set_up(self, stopped: Callable[[], bool]) -> dict[str, Path] | None:
        """The place of each volume by name; None where the pod was stopped before all were there."""
        delay_s = _FIRST_RETRY_S
        while not stopped():
            try:
                return await self._builder.build()
            except MountError as failure:
                self._node.events.emit(self._facts().pod, "Warning", "FailedMount", str(failure))
                await asyncio.sleep(self._node.site.timing.s(delay_s))
                delay_s = min(delay_s * 2, _LAST_RETRY_S)
        return None

    async def keep_fresh(self, finished: asyncio.Event) -> None:
        """Follow the sources until the pod has finished; returns at once where nothing can change."""
        if not self._builder.changeable:
            return
        while not finished.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (finished, self._hurried)]
            period_s = self._node.site.timing.s(_REFRESH_S)
            try:
                await asyncio.wait(waits, timeout=period_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if finished.is_set():
                return
            if self._hurried.is_set():
                self._hurried.clear()
                await asyncio.sleep(self._node.site.timing.s(_SYNC_S))
            self._builder.facts = self._facts()
            await self._builder.refresh()

    def hurry(self) -> None:
        """The pod's object has changed: what its volumes show of it follows soon."""
        self._hurried.set()
