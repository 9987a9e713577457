"""Writes pod statuses to the API: one at a time, and only what has changed.

Owns the write. It must not know what a status says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from simcluster.api.port import ApiError, Client, Object
from simcluster.node.clock import now
from simcluster.node.status import PodView, pod_status

_log = logging.getLogger(__name__)


def is_older(candidate: Object, known: Object) -> bool:
    """Whether a watch brings an object that a write's own answer has overtaken."""
    return int(candidate["metadata"].get("resourceVersion", 0)) < int(known["metadata"].get("resourceVersion", 0))


class StatusReporter:
    """The status of one pod."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._written: Object = {}

    async def write(self, view: Callable[[], PodView]) -> Object | None:
        """Write what `view` shows at its turn; the stored pod, or None where nothing changed or the pod is gone."""
        async with self._lock:
            seen = view()
            status = pod_status(seen, now())
            if status == self._written:
                return None
            metadata = seen.pod["metadata"]
            body = {"metadata": {"uid": metadata["uid"]}, "status": status}
            try:
                stored = await self._client.patch(
                    "pods", metadata["name"], body, metadata["namespace"], subresource="status"
                )
            except ApiError as error:
                _log.debug("status of %s not written: %s", metadata["name"], error)
                return None
            self._written = status
            return stored
