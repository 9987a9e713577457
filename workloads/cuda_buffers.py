"""Memory, streams and events of the CUDA driver API, each given back when its block ends.

Knows no torch and no limit.
"""

from __future__ import annotations

import ctypes
from typing import Any

from workloads.cuda_driver import Context, Driver


class DeviceMemory:
    """`size` bytes of the memory of the device whose context is current. Raises `CudaError`."""

    def __init__(self, driver: Driver, size: int) -> None:
        self._driver = driver
        self._address = ctypes.c_uint64()
        self.size = size
        driver.call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(size))

    @property
    def address(self) -> int:
        """Where it begins."""
        return self._address.value

    @property
    def address_argument(self) -> Any:
        """The address as a call takes it."""
        return ctypes.c_uint64(self.address)

    def write(self, data: bytes) -> None:
        """Copy `data` to the beginning."""
        self._driver.call("cuMemcpyHtoD_v2", self.address_argument, data, ctypes.c_size_t(len(data)))

    def clear(self) -> None:
        """Set every byte to zero."""
        self._driver.call("cuMemsetD8_v2", self.address_argument, ctypes.c_ubyte(0), ctypes.c_size_t(self.size))

    def read(self, start: int, size: int) -> bytes:
        """What the device gives back of `size` bytes from `start` on."""
        back = ctypes.create_string_buffer(size)
        source = ctypes.c_uint64(self.address + start)
        self._driver.call("cuMemcpyDtoH_v2", back, source, ctypes.c_size_t(size))
        return back.raw

    def __enter__(self) -> "DeviceMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuMemFree_v2", self._address)


class PinnedMemory:
    """`size` bytes of page-locked host memory, which the device copies from and to by itself. Raises `CudaError`."""

    def __init__(self, driver: Driver, size: int) -> None:
        self._driver = driver
        self.pointer = ctypes.c_void_p()
        self.size = size
        driver.call("cuMemHostAlloc", ctypes.byref(self.pointer), ctypes.c_size_t(size), ctypes.c_uint(0))

    def write(self, data: bytes) -> None:
        """Put `data` at the beginning."""
        ctypes.memmove(self.pointer, data, len(data))

    def read(self) -> bytes:
        """All of it."""
        return ctypes.string_at(self.pointer, self.size)

    def __enter__(self) -> "PinnedMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuMemFreeHost", self.pointer)


class Stream:
    """A stream of the current context: work in it is done in order, beside the work of other streams."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.handle = ctypes.c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(self.handle), ctypes.c_uint(1))  # CU_STREAM_NON_BLOCKING

    def to_device(self, target: DeviceMemory, source: PinnedMemory) -> None:
        """Begin to copy all of `source`."""
        size = ctypes.c_size_t(source.size)
        self._driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(target.address), source.pointer, size, self.handle)

    def to_host(self, target: PinnedMemory, source: DeviceMemory) -> None:
        """Begin to copy as much as `target` holds."""
        size = ctypes.c_size_t(target.size)
        self._driver.call("cuMemcpyDtoHAsync_v2", target.pointer, ctypes.c_uint64(source.address), size, self.handle)

    def inside(self, target: DeviceMemory, source: DeviceMemory) -> None:
        """Begin to copy all of `source` on the same device."""
        addresses = (ctypes.c_uint64(target.address), ctypes.c_uint64(source.address))
        self._driver.call("cuMemcpyDtoDAsync_v2", *addresses, ctypes.c_size_t(source.size), self.handle)

    def from_peer(self, target: DeviceMemory, to: Context, source: DeviceMemory, peer: Context) -> None:
        """Begin to copy all of `source` from the peer's memory into that of this stream's device."""
        into, out_of = ctypes.c_uint64(target.address), ctypes.c_uint64(source.address)
        size = ctypes.c_size_t(source.size)
        self._driver.call("cuMemcpyPeerAsync", into, to.handle, out_of, peer.handle, size, self.handle)

    def synchronize(self) -> None:
        """Wait until all of its work is done."""
        self._driver.call("cuStreamSynchronize", self.handle)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuStreamDestroy_v2", self.handle)


class Timer:
    """Seconds between two moments of a stream, by the device's own clock (0.5 us resolution: cuEventElapsedTime)."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._events = (ctypes.c_void_p(), ctypes.c_void_p())
        for event in self._events:
            driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))

    def start(self, stream: Any = None) -> None:
        """Now, as the stream (None: the default one) will reach it."""
        self._driver.call("cuEventRecord", self._events[0], stream)

    def stop(self, stream: Any = None) -> float:
        """Wait for the stream; seconds since `start`."""
        self._driver.call("cuEventRecord", self._events[1], stream)
        self._driver.call("cuEventSynchronize", self._events[1])
        milliseconds = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), *self._events)
        return milliseconds.value / 1000.0

    def __enter__(self) -> "Timer":
        return self

    def __exit__(self, *_: object) -> None:
        for event in self._events:
            self._driver.call("cuEventDestroy_v2", event)
