"""The queue behind every controller: once at a time, earlier delays first, retries that grow and are forgotten."""

from __future__ import annotations

import asyncio

import pytest

from simcluster.api.port import ApiError
from simcluster.controllers.workqueue import TryAgainError, WorkQueue


class Script:
    """A handler that notes when it ran and then does what the next entry says."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.keys: list[str] = []
        self.ran: list[float] = []
        self.busy = 0
        self.most = 0
        self.done = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.keys.append(key)
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.ran.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.005)
        self.busy -= 1
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        if not self.errors:
            self.done.set()


async def finish(queue: WorkQueue[str], script: Script) -> None:
    try:
        await asyncio.wait_for(script.done.wait(), 5.0)
    finally:
        await queue.stop()


def queue_of(script: Script, workers: int = 1) -> WorkQueue[str]:
    return WorkQueue(script, title="test", retry_first_s=0.02, retry_max_s=0.05, workers=workers)


@pytest.mark.parametrize("error", [ApiError(409, "Conflict", "x"), TryAgainError(), KeyError("x"), IndexError()])
async def test_whatever_fails_is_tried_again_with_growing_delay(error: Exception) -> None:
    script = Script(error, error, None)
    queue = queue_of(script)
    queue.add("a")
    queue.start()
    await finish(queue, script)
    first, second = script.ran[1] - script.ran[0], script.ran[2] - script.ran[1]
    assert first >= 0.02
    assert second >= 0.04


async def test_a_key_is_handled_once_at_a_time_and_not_lost_meanwhile() -> None:
    script = Script(None, None)
    queue = queue_of(script, workers=3)
    queue.start()
    queue.add("a")
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(0.05)
    await queue.stop()
    assert script.most == 1
    assert set(script.keys) == {"a"}
    assert len(script.ran) in {1, 2}


async def test_of_two_delays_the_earlier_one_counts() -> None:
    script = Script(None)
    queue = queue_of(script)
    queue.start()
    began = asyncio.get_running_loop().time()
    queue.add_after("a", 3.0)
    queue.add_after("a", 0.02)
    queue.add_after("a", 2.0)
    await finish(queue, script)
    assert 0.02 <= script.ran[0] - began < 1.0


async def test_a_cancelled_delay_never_comes() -> None:
    script = Script(None)
    queue = queue_of(script)
    queue.start()
    queue.add_after("a", 0.01)
    queue.cancel("a")
    await asyncio.sleep(0.05)
    await queue.stop()
    assert script.ran == []
