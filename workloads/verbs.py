"""libibverbs through ctypes: which adapters a container can use, and whether it can make what a connection needs.

Owns the calls, their order and their error numbers. It must not know how many adapters are right, nor sysfs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from workloads.verbs_types import (
    DATAGRAM,
    LIBRARY,
    LOCAL_WRITE,
    MTU_BYTES,
    NUMBER_CALLS,
    POINTER_CALLS,
    RELIABLE,
    REMOTE_READ,
    REMOTE_WRITE,
    PortAttr,
    QpInitAttr,
)

PORT = 1
ENTRIES = 16


class VerbsError(RuntimeError):
    """A call that failed; `step` says in plain words what it was for."""

    def __init__(self, step: str, code: int) -> None:
        super().__init__("%s: %s" % (step, os.strerror(code) if code else "no reason given"))
        self.step = step
        self.code = code


class NoVerbsError(RuntimeError):
    """There is no libibverbs in the image."""


class Use(NamedTuple):
    """What came of using one adapter: the step that failed and why ('' where none did), and the port's MTU in bytes."""

    failed: str
    mtu: Optional[int]


class Verbs:
    """The library; raises `NoVerbsError` where the image has none."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._lib = ctypes.CDLL(library, use_errno=True)
        except OSError as error:
            raise NoVerbsError(str(error)) from error
        for calls, result in ((POINTER_CALLS, ctypes.c_void_p), (NUMBER_CALLS, ctypes.c_int)):
            for name, arguments in calls.items():
                function = getattr(self._lib, name)
                function.restype, function.argtypes = result, arguments
        self._lib.ibv_get_device_name.restype = ctypes.c_char_p
        self._lib.ibv_get_device_name.argtypes = [ctypes.c_void_p]

    def devices(self) -> Dict[str, int]:
        """The adapters that can be listed, by name, with their handles; none where the kernel shows none."""
        count = ctypes.c_int(0)
        listed = self._lib.ibv_get_device_list(ctypes.byref(count))
        if not listed:
            return {}
        handles = ctypes.cast(listed, ctypes.POINTER(ctypes.c_void_p))
        found = [handles[index] for index in range(count.value)]
        # The list is not freed: the handles live as long as it does, and this process is a short one.
        return {self._lib.ibv_get_device_name(handle).decode("ascii", "replace"): int(handle or 0) for handle in found}

    def use(self, device: int, memory_bytes: int, reliable: bool = True) -> Use:
        """Open the adapter and make a protection domain, a memory region, a completion queue and a queue pair."""
        undo: List[Tuple[str, int]] = []
        mtu: Optional[int] = None
        # Page-aligned memory of its own, as a framework's buffers are.
        memory = mmap.mmap(-1, memory_bytes)
        try:
            context = self._make(undo, "open the device", "ibv_open_device", "ibv_close_device", device)
            mtu = self._mtu(context)
            domain = self._make(undo, "protection domain", "ibv_alloc_pd", "ibv_dealloc_pd", context)
            view = (ctypes.c_char * memory_bytes).from_buffer(memory)
            address = ctypes.addressof(view)
            del view
            rights = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ
            step = "register %d MiB of memory" % (memory_bytes >> 20)
            self._make(undo, step, "ibv_reg_mr", "ibv_dereg_mr", domain, address, memory_bytes, rights)
            queue = self._make(
                undo, "completion queue", "ibv_create_cq", "ibv_destroy_cq", context, ENTRIES, None, None, 0
            )
            wanted = QpInitAttr(
                send_cq=queue,
                recv_cq=queue,
                max_send_wr=ENTRIES,
                max_recv_wr=ENTRIES,
                max_send_sge=1,
                max_recv_sge=1,
                qp_type=RELIABLE if reliable else DATAGRAM,
            )
            self._make(undo, "queue pair", "ibv_create_qp", "ibv_destroy_qp", domain, ctypes.byref(wanted))
        except VerbsError as error:
            return Use(str(error), mtu)
        finally:
            for name, handle in reversed(undo):
                getattr(self._lib, name)(handle)
            memory.close()
        return Use("", mtu)

    def _make(self, undo: List[Tuple[str, int]], step: str, name: str, back: str, *arguments: Any) -> int:
        function: Callable[..., Optional[int]] = getattr(self._lib, name)
        ctypes.set_errno(0)
        handle = function(*arguments)
        if not handle:
            raise VerbsError(step, ctypes.get_errno())
        undo.append((back, handle))
        return handle

    def _mtu(self, context: int) -> Optional[int]:
        port = PortAttr()
        code = int(self._lib.ibv_query_port(context, PORT, ctypes.byref(port)))
        if code:
            raise VerbsError("ask port %d" % PORT, code)
        return MTU_BYTES.get(port.active_mtu)
