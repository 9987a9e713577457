"""Looks around again and again in a task of its own; what the API refuses is told, and the next look is another try.

Must not know what is looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from simcluster.api.port import ApiError

log = logging.getLogger(__name__)


class Rounds:
    """`look` every `every_s`, the first time after that; from `start` to `stop`."""

    def __init__(self, look: Callable[[], Awaitable[None]], every_s: float, title: str) -> None:
        self._look, self._every_s, self._title = look, every_s, title
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start after the informers."""
        self._task = asyncio.create_task(self._run(), name=self._title)

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._look()
            except ApiError as error:
                log.info("%s: %s", self._title, error.message)
