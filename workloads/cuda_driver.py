"""The CUDA driver API through ctypes: the few calls that show whether a device can be used, with its own error codes.

Knows no torch, no limit and no Kubernetes. Signatures are those of the CUDA driver API reference (cuda.h).
"""

from __future__ import annotations

import ctypes
import os
import uuid
from typing import Any, List, Tuple

CHUNK_BYTES = 64 << 20


class CudaError(RuntimeError):
    """A driver call that did not return CUDA_SUCCESS; `code` is the CUresult, -1 where the library itself is absent."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__("%s: %d %s" % (call, code, name))
        self.call = call
        self.code = code
        self.name = name


class Driver:
    """libcuda.so.1, initialised. Raises `CudaError` from every call that fails."""

    def __init__(self) -> None:
        # NVML's order: a GPU has one number in all that is reported of it.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        try:
            self._lib: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError("dlopen libcuda.so.1", -1, str(error)) from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """One call by its C name; raises `CudaError` for everything but CUDA_SUCCESS."""
        code = int(getattr(self._lib, name)(*arguments))
        if code != 0:
            raise CudaError(name, code, self._name_of(code))

    def _name_of(self, code: int) -> str:
        text = ctypes.c_char_p()
        if int(self._lib.cuGetErrorName(code, ctypes.byref(text))) != 0 or text.value is None:
            return "unknown error"
        return text.value.decode("ascii", "replace")

    def version(self) -> str:
        """The CUDA version that the driver supports, such as "12.4"."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return "%d.%d" % (number.value // 1000, number.value % 1000 // 10)

    def device_count(self) -> int:
        """How many devices this process may use."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device_name(self, ordinal: int) -> str:
        """The product name of a device."""
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, self._device(ordinal))
        return text.value.decode("utf-8", "replace")

    def total_memory_bytes(self, ordinal: int) -> int:
        """The device's memory."""
        size = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(size), self._device(ordinal))
        return size.value

    def open(self, ordinal: int) -> "Context":
        """Retain the device's primary context (the one that torch uses too) and make it current."""
        device = self._device(ordinal)
        handle = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device)
        self.call("cuCtxSetCurrent", handle)
        return Context(self, device, handle)

    def uuid(self, ordinal: int) -> str:
        """Such as "GPU-…": NVML and CUDA number GPUs differently, and by this they can be matched."""
        raw = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid_v2", raw, self._device(ordinal))
        return "GPU-%s" % uuid.UUID(bytes=raw.raw)

    def attribute(self, ordinal: int, number: int) -> int:
        """A CUdevice_attribute by its number."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device(ordinal))
        return value.value

    def can_access_peer(self, ordinal: int, peer: int) -> bool:
        """Whether one device may read and write the other's memory directly."""
        can = ctypes.c_int()
        self.call("cuDeviceCanAccessPeer", ctypes.byref(can), self._device(ordinal), self._device(peer))
        return bool(can.value)

    def _device(self, ordinal: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        return device


class Context:
    """A device whose primary context is current; use as a context manager."""

    def __init__(self, driver: Driver, device: ctypes.c_int, handle: ctypes.c_void_p) -> None:
        self._driver = driver
        self._device = device
        self.handle = handle

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def use(self) -> None:
        """Make it the current one."""
        self._driver.call("cuCtxSetCurrent", self.handle)

    def synchronize(self) -> None:
        """Wait until everything asked of the device is done; errors of earlier work show here."""
        self._driver.call("cuCtxSynchronize")

    def free_bytes(self) -> Tuple[int, int]:
        """(free, total) of the device's memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """The address of `size` bytes of the device's memory, held until this process ends."""
        address = ctypes.c_uint64()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def fill(self, address: int, data: bytes) -> None:
        """Copy `data` to an address of the device's memory and wait until it is there."""
        call = self._driver.call
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))
        call("cuCtxSynchronize")

    def round_trip(self, data: bytes) -> bytes:
        """What comes back of `data` after it was copied into the device's memory and out again."""
        call = self._driver.call
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        try:
            back = ctypes.create_string_buffer(len(data))
            call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
            call("cuCtxSynchronize")
            call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(len(data)))
        finally:
            call("cuMemFree_v2", address)
        return back.raw

    def hold_pattern(self, patterns: List[bytes]) -> Tuple[int, int]:
        """Write every pattern to its own allocation, keep all of them, then read all back: (wrong bytes, bytes tested).

        All allocations live at the same time, so that each byte of the sum is a different place of the memory.
        """
        call = self._driver.call
        addresses: List[ctypes.c_uint64] = []
        wrong = tested = 0
        try:
            for pattern in patterns:
                address = ctypes.c_uint64()
                call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(pattern)))
                addresses.append(address)
                call("cuMemcpyHtoD_v2", address, pattern, ctypes.c_size_t(len(pattern)))
            call("cuCtxSynchronize")
            for address, pattern in zip(addresses, patterns):
                back = ctypes.create_string_buffer(len(pattern))
                call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(len(pattern)))
                wrong += count_differences(pattern, back.raw)
                tested += len(pattern)
        finally:
            for address in addresses:
                call("cuMemFree_v2", address)
        return wrong, tested


def count_differences(expected: bytes, actual: bytes) -> int:
    """How many bytes differ (both of one length)."""
    if expected == actual:
        return 0
    difference = int.from_bytes(expected, "little") ^ int.from_bytes(actual, "little")
    return len(expected) - difference.to_bytes(len(expected), "little").count(0)
