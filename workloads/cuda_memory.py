"""Does a GPU's memory keep what is written: pinned round trips on two streams, a pattern over most of it, peer copies.

Knows no limit and no torch.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import List, Tuple

from workloads.contract import Sample
from workloads.cuda_buffers import DeviceMemory, PinnedMemory, Stream
from workloads.cuda_driver import Context, CudaError, Driver, count_differences
from workloads.cuda_kernels import Kernels, word_at

SMALL = 256 << 10
READ_BACK = 8
"""Places of the large pattern that are also read by the host."""
PROBES = 512
"""Words of each such place that are compared one by one."""
WORD = 4
_MULTIPROCESSORS = 16
_ALREADY_ENABLED = 704


def two_streams(driver: Driver, gpu: int) -> Sample:
    """Different random bytes down and up through pinned memory on two streams at once; how many came back wrong."""
    with ExitStack() as held:
        pinned = [held.enter_context(PinnedMemory(driver, SMALL)) for _ in range(2)]
        memory = [held.enter_context(DeviceMemory(driver, SMALL)) for _ in range(2)]
        streams = [held.enter_context(Stream(driver)) for _ in range(2)]
        sent = [os.urandom(SMALL) for _ in range(2)]
        for each in range(2):
            pinned[each].write(sent[each])
            streams[each].to_device(memory[each], pinned[each])
        for stream in streams:
            stream.synchronize()
        # Each comes back into the other's buffer, which holds other bytes: what was not copied cannot look right.
        for each in range(2):
            streams[each].to_host(pinned[1 - each], memory[each])
        for stream in streams:
            stream.synchronize()
        wrong = sum(count_differences(sent[each], pinned[1 - each].read()) for each in range(2))
    return Sample("stream_wrong_bytes", float(wrong), "B", {"gpu": gpu})


def pattern(driver: Driver, context: Context, gpu: int, fraction: float) -> List[Sample]:
    """One allocation of `fraction` of the device's memory, filled by a kernel, verified by another and by the host."""
    total = driver.total_memory_bytes(gpu)
    words = int(total * fraction) // WORD
    seed = int.from_bytes(os.urandom(4), "little")
    blocks = 8 * driver.attribute(gpu, _MULTIPROCESSORS)
    kernels = Kernels(driver)
    with DeviceMemory(driver, words * WORD) as memory, DeviceMemory(driver, 8) as counter:
        counter.clear()
        kernels.fill(memory.address, words, seed, blocks)
        kernels.verify(memory.address, words, seed, counter.address, blocks)
        context.synchronize()
        wrong = int.from_bytes(counter.read(0, 8), "little")
        host_wrong = read_back(memory, words, seed)
    kernels.unload()
    at = {"gpu": gpu}
    return [
        Sample("memory_wrong_words", float(wrong), "count", at),
        Sample("memory_read_back_wrong_words", float(host_wrong), "count", at),
        Sample("memory_tested", float(words * WORD), "B", at),
        Sample("memory_tested_fraction", words * WORD / total if total else float("nan"), "1", at),
    ]


def read_back(memory: DeviceMemory, words: int, seed: int) -> int:
    """How many of the words the host looks at, spread from the first to the last, are not what was written."""
    wrong = 0
    for place in range(READ_BACK):
        start = (words - PROBES) * place // (READ_BACK - 1)
        raw = memory.read(start * WORD, PROBES * WORD)
        for number in range(PROBES):
            found = int.from_bytes(raw[number * WORD : (number + 1) * WORD], "little")
            wrong += found != word_at(start + number, seed)
    return wrong


def peer_copy(driver: Driver, gpu: int, peer: int) -> Tuple[bool, int]:
    """Random bytes copied to one GPU from another: whether it reaches it directly, and how many bytes are wrong."""
    with driver.open(peer) as theirs, DeviceMemory(driver, SMALL) as source:
        sent = os.urandom(SMALL)
        source.write(sent)
        with driver.open(gpu) as own, DeviceMemory(driver, SMALL) as target, Stream(driver) as stream:
            reachable = driver.can_access_peer(gpu, peer)
            if reachable:
                allow(driver, theirs)
            stream.from_peer(target, own, source, theirs)
            stream.synchronize()
            wrong = count_differences(sent, target.read(0, SMALL))
        theirs.use()
    return reachable, wrong


def allow(driver: Driver, peer: Context) -> None:
    """Let the current context reach the peer's memory directly, if it may not already."""
    try:
        driver.call("cuCtxEnablePeerAccess", peer.handle, 0)
    except CudaError as error:
        if error.code != _ALREADY_ENABLED:
            raise
