"""NVML through ctypes: what the driver says of the GPUs that a pod sees. Knows no limit, no CUDA and no Kubernetes.

Names, signatures and constants are those of NVIDIA's NVML API reference (nvml.h). A question that this driver or GPU
does not answer (not supported, no permission, function absent from the library) gives None; every other failure raises
`NvmlError` with NVML's own code, so that "cannot say" and "is broken" stay apart.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from workloads.nvml_types import (
    CLOCK_SM,
    FIELD_MEMORY_TEMPERATURE,
    FIELD_RECOVERY_ACTION,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    LIBRARY,
    NO_ANSWER,
    NO_LIBRARY,
    RECOVERY_ACTIONS,
    SLOWDOWN_TEMPERATURE,
    VALUE_TYPES,
    Field,
    Memory,
    Pci,
    Utilization,
)

T = TypeVar("T")


class NvmlError(RuntimeError):
    """A call that did not return NVML_SUCCESS; `code` is the nvmlReturn_t, -1 where the library itself is absent."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__("%s: %d %s" % (call, code, name))
        self.call = call
        self.code = code
        self.name = name


class Nvml:
    """libnvidia-ml.so.1, initialised. Raises `NvmlError` where there is none or it does not initialise."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._lib = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(library, NO_LIBRARY, str(error)) from error
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        """One call by its C name; raises `NvmlError` for everything but success."""
        try:
            function = getattr(self._lib, name)
        except AttributeError as error:
            raise NvmlError(name, FUNCTION_NOT_FOUND, "this driver's library does not have it") from error
        code = int(function(*arguments))
        if code != 0:
            raise NvmlError(name, code, self._name_of(code))

    def _name_of(self, code: int) -> str:
        text = self._lib.nvmlErrorString
        text.restype = ctypes.c_char_p
        said = text(code)
        return said.decode("ascii", "replace") if said else "unknown error"

    def driver_version(self) -> str:
        """The kernel driver's version, such as "550.107.02"."""
        text = ctypes.create_string_buffer(96)
        self.call("nvmlSystemGetDriverVersion", text, 96)
        return text.value.decode("ascii", "replace")

    def count(self) -> int:
        """How many physical GPUs this process may see."""
        number = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(number))
        return number.value

    def device(self, index: int) -> "Device":
        """The GPU with this index in NVML's order (PCI bus), which need not be CUDA's. Raises `NvmlError`."""
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return Device(self, handle, index)

    def devices(self) -> List["Device"]:
        """Every GPU, in NVML's order. Raises `NvmlError` where one cannot be reached."""
        return [self.device(index) for index in range(self.count())]

    def shutdown(self) -> None:
        """Give the library back."""
        self.call("nvmlShutdown")


def answer(ask: Callable[[], T]) -> Optional[T]:
    """What `ask` gives, None where NVML says that there is no answer."""
    try:
        return ask()
    except NvmlError as error:
        if error.code in NO_ANSWER:
            return None
        raise


class Device:
    """One GPU. Every reading is of this moment; None where driver or product has no such reading."""

    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p, index: int) -> None:
        self.nvml = nvml
        self.handle = handle
        self.index = index

    def number(self, name: str, *before: int, kind: Any = ctypes.c_uint) -> Optional[int]:
        """The answer to a call that takes whole numbers and gives one back."""

        def ask() -> int:
            value = kind()
            self.nvml.call(name, self.handle, *[ctypes.c_uint(item) for item in before], ctypes.byref(value))
            return int(value.value)

        return answer(ask)

    def text(self, name: str) -> Optional[str]:
        """The answer to a call that gives a word."""

        def ask() -> str:
            text = ctypes.create_string_buffer(96)
            self.nvml.call(name, self.handle, text, ctypes.c_uint(96))
            return text.value.decode("utf-8", "replace")

        return answer(ask)

    def uuid(self) -> Optional[str]:
        """Such as "GPU-…"."""
        return self.text("nvmlDeviceGetUUID")

    def name(self) -> Optional[str]:
        """The product, with blanks."""
        return self.text("nvmlDeviceGetName")

    def serial(self) -> Optional[str]:
        """The board's serial number."""
        return self.text("nvmlDeviceGetSerial")

    def vbios(self) -> Optional[str]:
        """The version of the board's VBIOS."""
        return self.text("nvmlDeviceGetVbiosVersion")

    def pci_bus_id(self) -> Optional[str]:
        """Such as "00000000:1B:00.0"."""

        def ask() -> str:
            pci = Pci()
            self.nvml.call("nvmlDeviceGetPciInfo_v3", self.handle, ctypes.byref(pci))
            return bytes(pci.bus_id).decode("ascii", "replace")

        return answer(ask)

    def memory_bytes(self) -> Optional[Tuple[int, int]]:
        """(total, used); "used" holds what the driver keeps for itself."""

        def ask() -> Tuple[int, int]:
            memory = Memory()
            self.nvml.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(memory))
            return int(memory.total), int(memory.used)

        return answer(ask)

    def utilization_percent(self) -> Optional[int]:
        """Share of the last period in which any kernel ran: one thread on one SM makes it 100."""

        def ask() -> int:
            rates = Utilization()
            self.nvml.call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(rates))
            return int(rates.gpu)

        return answer(ask)

    def temperature_c(self) -> Optional[int]:
        """Of the GPU's core."""
        return self.number("nvmlDeviceGetTemperature", 0)

    def slowdown_temperature_c(self) -> Optional[int]:
        """At which the hardware begins to slow itself down."""
        return self.number("nvmlDeviceGetTemperatureThreshold", SLOWDOWN_TEMPERATURE)

    def memory_temperature_c(self) -> Optional[int]:
        """Of the HBM."""
        return self.field(FIELD_MEMORY_TEMPERATURE)

    def power_w(self) -> Optional[float]:
        """Drawn now."""
        milliwatts = self.number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1000.0

    def power_limit_w(self) -> Optional[float]:
        """The limit in force."""
        milliwatts = self.number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1000.0

    def energy_mj(self) -> Optional[int]:
        """Millijoules since the driver was loaded."""
        return self.number("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong)

    def clock_mhz(self, kind: int = CLOCK_SM) -> Optional[int]:
        """The clock now."""
        return self.number("nvmlDeviceGetClockInfo", kind)

    def max_clock_mhz(self, kind: int = CLOCK_SM) -> Optional[int]:
        """The highest clock of the product."""
        return self.number("nvmlDeviceGetMaxClockInfo", kind)

    def throttle_reasons(self) -> Optional[int]:
        """Bits of `THROTTLE_REASONS`; drivers before 535 know the call by its old name."""
        mask = self.number("nvmlDeviceGetCurrentClocksEventReasons", kind=ctypes.c_ulonglong)
        if mask is None:
            mask = self.number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return mask

    def pcie_generation(self) -> Optional[int]:
        """Of the link now: an idle GPU may train down, so read it under load."""
        return self.number("nvmlDeviceGetCurrPcieLinkGeneration")

    def pcie_width(self) -> Optional[int]:
        """Lanes of the link now."""
        return self.number("nvmlDeviceGetCurrPcieLinkWidth")

    def pcie_replays(self) -> Optional[int]:
        """Packets sent again since the driver was loaded."""
        return self.number("nvmlDeviceGetPcieReplayCounter")

    def ecc_enabled(self) -> Optional[bool]:
        """Whether ECC is on now."""

        def ask() -> bool:
            current, pending = ctypes.c_uint(), ctypes.c_uint()
            self.nvml.call("nvmlDeviceGetEccMode", self.handle, ctypes.byref(current), ctypes.byref(pending))
            return bool(current.value)

        return answer(ask)

    def mig_enabled(self) -> Optional[bool]:
        """Whether the GPU is partitioned now; None where the product cannot be."""

        def ask() -> bool:
            current, pending = ctypes.c_uint(), ctypes.c_uint()
            self.nvml.call("nvmlDeviceGetMigMode", self.handle, ctypes.byref(current), ctypes.byref(pending))
            return bool(current.value)

        return answer(ask)

    def ecc_errors(self, kind: int, counter: int, location: Optional[int] = None) -> Optional[int]:
        """Errors of a kind (CORRECTED, UNCORRECTED) since boot (VOLATILE) or ever (AGGREGATE), in all or one memory."""
        if location is None:
            return self.number("nvmlDeviceGetTotalEccErrors", kind, counter, kind=ctypes.c_ulonglong)
        return self.number("nvmlDeviceGetMemoryErrorCounter", kind, counter, location, kind=ctypes.c_ulonglong)

    def remapped_rows(self) -> Optional[Dict[str, int]]:
        """Rows replaced after correctable and uncorrectable errors, and whether a remap is pending or has failed."""

        def ask() -> Dict[str, int]:
            numbers = [ctypes.c_uint() for _ in range(4)]
            self.nvml.call("nvmlDeviceGetRemappedRows", self.handle, *[ctypes.byref(each) for each in numbers])
            names = ("correctable", "uncorrectable", "pending", "failure")
            return {name: int(each.value) for name, each in zip(names, numbers)}

        return answer(ask)

    def retired_pages(self, cause: int) -> Optional[int]:
        """Pages retired for a cause (MULTIPLE_SINGLE_BIT, DOUBLE_BIT): products before Ampere only."""

        def ask() -> int:
            number = ctypes.c_uint(0)
            try:
                self.nvml.call(
                    "nvmlDeviceGetRetiredPages", self.handle, ctypes.c_int(cause), ctypes.byref(number), None
                )
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE:
                    raise
            return int(number.value)

        return answer(ask)

    def recovery_action(self) -> Optional[str]:
        """What the driver wants done to make the GPU whole again; "none" where it is."""
        action = self.field(FIELD_RECOVERY_ACTION)
        return None if action is None else RECOVERY_ACTIONS.get(action, "action %d" % action)

    def field(self, number: int, scope: int = 0) -> Optional[int]:
        """One of NVML's field values (NVML_FI_DEV_…), `scope` a link's number where the field is one a link."""

        def ask() -> int:
            value = Field(field=number, scope=scope)
            self.nvml.call("nvmlDeviceGetFieldValues", self.handle, ctypes.c_int(1), ctypes.byref(value))
            if value.result != 0:
                raise NvmlError("field %d" % number, int(value.result), "nvmlDeviceGetFieldValues")
            return int(getattr(value.value, VALUE_TYPES[value.value_type]))

        return answer(ask)
