"""The volumes of one pod over its life: set up with patience, and brought up to date while it runs (golden 12).

Owns the retries and the period. It must not know what a volume holds.
"""

from __future__ import annotations

import asyncio
import contextlib
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


class PodVolumes:
    """`facts` tells what is known of the pod at the time of the call."""

    def __init__(self, node: NodeContext, facts: Callable[[], PodFacts], directory: Path) -> None:
        site = node.site
        self._node = node
        self._facts = facts
        storage = NodeStorage(directory / "volumes", site.claims, node.directory / "host", node.name)
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
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(finished.wait(), self._node.site.timing.s(_REFRESH_S))
                return
            self._builder.facts = self._facts()
            await self._builder.refresh()
