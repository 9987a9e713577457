"""NVML's constants and structures as nvml.h lays them out; knows no library and asks nothing."""

from __future__ import annotations

import ctypes

LIBRARY = "libnvidia-ml.so.1"
NO_LIBRARY = -1
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
INSUFFICIENT_SIZE, TIMEOUT, FUNCTION_NOT_FOUND = 7, 10, 13
NO_ANSWER = (NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND)

CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
DRAM, SRAM = 2, 7
CLOCK_SM, CLOCK_MEMORY = 1, 2
SLOWDOWN_TEMPERATURE = 1
MULTIPLE_SINGLE_BIT, DOUBLE_BIT = 0, 1
MAX_NVLINKS = 18
XID_EVENT = 0x8
FIELD_NVLINK_SPEED, FIELD_RECOVERY_ACTION, FIELD_MEMORY_TEMPERATURE = 164, 230, 82
NVLINK_REPLAY, NVLINK_RECOVERY, NVLINK_CRC_FLIT = 0, 1, 2
GPM_SM_ACTIVITY, GPM_TENSOR_ACTIVITY, GPM_DRAM_ACTIVITY = 2, 5, 10

THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Bits of nvmlClocksEventReasons by the names that nvidia-smi queries them by."""

FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
RECOVERY_ACTIONS = {0: "none", 1: "reset the GPU", 2: "reboot the node", 3: "drain P2P", 4: "drain and reset"}
GPM_MAX = 512
"""More than any driver's NVML_GPM_METRIC_MAX: the structure may be longer than the library needs, not shorter."""


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Pci(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


class Fabric(ctypes.Structure):
    _fields_ = [
        ("cluster_uuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique_id", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    ]


class Value(ctypes.Union):
    _fields_ = [
        ("double", ctypes.c_double),
        ("uint", ctypes.c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", ctypes.c_ulonglong),
        ("longlong", ctypes.c_longlong),
        ("int", ctypes.c_int),
        ("ushort", ctypes.c_ushort),
    ]


VALUE_TYPES = ("double", "uint", "ulong", "ulonglong", "longlong", "int", "ushort")


class Field(ctypes.Structure):
    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", Value),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class GpmMetric(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("result", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    ]


class GpmMetrics(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", GpmMetric * GPM_MAX),
    ]


class GpmSupport(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("supported", ctypes.c_uint)]
