"""XIDs, CUDA's errors and throttle reasons: read in the forms that drivers and frameworks write, named in words.

Lines of the kernel log follow NVIDIA's XID documentation (docs.nvidia.com/deploy/xid-errors) and what operators quote;
addresses and programs are changed.
"""

from __future__ import annotations

import pytest

from workloads import cuda_errors, gpu_health, gpu_telemetry, xid
from workloads.gpu_telemetry import Readings

LOG = """\
<6>[    1.000000] pci 0000:1b:00.0: BAR 1: assigned
<3>[ 1234.567890] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[Mon Jan  5 03:00:00 2026] NVRM: Xid (PCI:0000:2B:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault
NVRM: Xid (0000:3b:00): 43, Ch 00000010
NVRM: Xid (PCI:0000:ca:00.0): 119, Timeout after 6s of waiting for RPC response from GPU3 GSP!
NVRM: GPU at PCI:0000:1b:00: GPU-00000000-0000-0000-0000-000000000000
"""


def test_xids_are_read_in_every_form_that_drivers_write() -> None:
    assert xid.in_log(LOG) == [("0000:1b:00", 79), ("0000:2b:00", 31), ("0000:3b:00", 43), ("0000:ca:00", 119)]


@pytest.mark.parametrize(
    "text", ["", "Xid (PCI:0000:1b:00): 79", "NVRM: Xid (PCI:zz): 79", "NVRM: Xid (PCI:0000:1b:00): x"]
)
def test_what_is_no_xid_is_none(text: str) -> None:
    assert xid.in_log(text) == []


@pytest.mark.parametrize(
    ("bus_id", "expected"),
    [("00000000:1B:00.0", "0000:1b:00"), ("0000:1b:00.0", "0000:1b:00"), ("00010000:1B:00.0", "0000:1b:00")],
)
def test_addresses_of_nvml_and_of_the_log_are_one(bus_id: str, expected: str) -> None:
    assert xid.address(bus_id) == expected


def test_every_xid_of_the_catalogue_that_asks_for_action_has_one() -> None:
    for number in (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158):
        assert "reset" in xid.told(number)
        assert not xid.of_the_application(number)
    assert "restart" in xid.told(79)
    for number in (13, 31, 43, 68, 69, 94):
        assert xid.of_the_application(number)


def test_an_unknown_xid_is_the_nodes_and_still_has_an_action() -> None:
    assert xid.told(999).startswith("XID 999: see NVIDIA's XID catalogue")
    assert not xid.of_the_application(999)


def test_only_what_the_log_has_more_of_is_new_also_when_it_lost_its_beginning() -> None:
    before = [("0000:1b:00", 79), ("0000:1b:00", 31), ("0000:2b:00", 31)]
    assert gpu_health.added(before, [("0000:1b:00", 31), ("0000:2b:00", 31), ("0000:2b:00", 31)]) == [
        ("0000:2b:00", 31)
    ]
    assert gpu_health.added(before, before) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver", 35),
        ("CUDA error: CUDA driver version is insufficient for CUDA runtime version", 35),
        ("CUDA error: no CUDA-capable device is detected", 100),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", 802),
        ("Error 803: system has unsupported display driver / cuda driver combination", 803),
        ("Error 804: forward compatibility was attempted on non supported HW", 804),
        ("CUDA unknown error - this may be due to an incorrectly set up environment", 999),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", 2),
        ("mat1 and mat2 shapes cannot be multiplied", 0),
    ],
)
def test_frameworks_messages_lead_to_the_code(text: str, code: int) -> None:
    assert cuda_errors.code_in(text) == code
    assert (cuda_errors.explained(text, code) != text) == (code != 0)


def test_the_six_codes_of_broken_set_ups_have_six_different_causes() -> None:
    causes = {cuda_errors.meaning(code) for code in (35, 100, 802, 803, 804, 999)}
    assert len(causes) == 6
    assert None not in causes


def test_the_power_limit_is_no_harm_and_heat_is() -> None:
    assert [gpu_telemetry.harmful(mask) for mask in (0, 0x1, 0x4, 0x8, 0x20, 0x40, 0x80, 0x44)] == [False] * 3 + [
        True
    ] * 5
    assert gpu_telemetry.reasons_of(Readings(reasons=[0x1, 0x4, 0x40])) == "sw_power_cap+hw_thermal_slowdown"
    assert gpu_telemetry.reasons_of(Readings(reasons=[0x1, 0x0])) == "none"
    assert gpu_telemetry.names_of(0x10000) == ["0x10000"]


def test_readings_become_medians_and_shares_and_what_was_not_read_is_not_reported() -> None:
    seen = Readings([1000, 1980, 1980], [60, 84], [300.0, 500.0], [0, 0x40, 0, 0], 0.5, 87)
    found = {sample.metric: sample.value for sample in gpu_telemetry.samples_of(1, seen)}
    assert found["sm_clock"] == 1980
    assert found["throttled_fraction"] == 0.25
    assert found["temperature_of_slowdown"] == pytest.approx(84 / 87)
    assert (found["power"], found["sm_activity"], found["telemetry_readings"]) == (400, 0.5, 4)
    assert [sample.metric for sample in gpu_telemetry.samples_of(0, Readings())] == ["telemetry_readings"]
