"""The GPU workloads' own logic: reading nvidia-smi by its header, counting wrong bytes, and running without any GPU."""

from __future__ import annotations

import os

import pytest

from workloads import cuda_driver, cuda_runtime, gpu_inventory, smi_text

TABLE = (
    "index, uuid, name, driver_version, memory.total [MiB]\n0, GPU-a, X, 550.1, 81559 MiB\n1, GPU-b, X, 550.1, [N/A]\n"
)


def test_rows_are_read_by_the_header_wherever_it_stands() -> None:
    rows = smi_text.rows_of("WARNING: infoROM is corrupted\n" + TABLE)
    assert [row["uuid"] for row in rows] == ["GPU-a", "GPU-b"]
    assert [smi_text.memory_mib(row["memory.total"]) for row in rows] == [81559.0, None]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Unable to determine the device handle for GPU0000:53:00.0: Unknown Error\n",
        "Failed to initialize NVML: Unknown Error\n",
        "No devices were found\n",
        "0, GPU-a, X, 550.1, 81559 MiB\n",
    ],
)
def test_text_without_a_table_holds_no_gpu(text: str) -> None:
    assert smi_text.rows_of(text) == []


def test_no_nvidia_smi_is_a_measured_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    measurement = gpu_inventory.measure()
    values = {sample.metric: sample.value for sample in measurement.samples}
    assert (values["gpus_visible"], values["gpus_nvml"]) == (0.0, 0.0)
    assert "libnvidia-ml.so.1" in str(measurement.facts["nvml_error"])
    assert measurement.facts["nvidia_smi_error"] != "none"


def test_differences_are_counted_by_byte() -> None:
    data = os.urandom(4096)
    damaged = bytearray(data)
    damaged[0] ^= 1
    damaged[-1] ^= 0x80
    assert cuda_driver.count_differences(data, bytes(damaged)) == 2
    assert cuda_driver.count_differences(data, data) == 0


def test_without_a_driver_no_gpu_is_usable_and_the_reason_is_named() -> None:
    measurement = cuda_runtime.measure()
    values = {sample.metric: sample.value for sample in measurement.samples}
    assert values == {"gpus_cuda": 0.0, "gpus_usable": 0.0}
    assert "libcuda.so.1" in str(measurement.facts["cuda_error"])
