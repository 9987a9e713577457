"""Versions of an image, and counts of a node, from files in the places and formats where real ones keep them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workloads import gpu_inventory, versions


def a_torch(folder: Path, text: str) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (folder / "torch" / "version.py").write_text(text)


@pytest.mark.parametrize(
    ("text", "said", "version"),
    [
        ("from typing import Optional\ncuda: Optional[str] = '12.8'\n", "13.0.2", "12.8"),
        ("cuda = '12.4'\n", "", "12.4"),
        ("cuda: Optional[str] = None\nhip = None\n", "13.0.2", "13.0.2"),
        ("cuda = None\n", "", "none"),
        ("cuda = (\n", "", "none"),
        ("", "11.8.0", "11.8.0"),
        ("", "unknown", "none"),
    ],
)
def test_cuda_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str, version: str) -> None:
    a_torch(tmp_path, text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("CUDA_VERSION", said)
    assert versions.cuda_of_image() == version


@pytest.mark.parametrize(("number", "words"), [(22705, "2.27.5"), (21805, "2.18.5"), (20900, "2.9.0"), (2804, "2.8.4")])
def test_nccl_counts_its_versions_in_two_ways(number: int, words: str) -> None:
    assert versions.nccl_version(number) == words


def test_no_nccl_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia" / "nccl" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2").write_bytes(b"not a library")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert versions.nccl_places()[0].startswith(str(tmp_path))
    assert versions.nccl_of_image() == versions.NONE


def test_boards_are_display_controllers_of_the_vendor_and_no_virtual_functions(tmp_path: Path) -> None:
    devices = {
        "0000:1b:00.0": ("0x10de", "0x030200"),  # an accelerator
        "0000:2b:00.0": ("0x10de", "0x030000"),  # a card with a display
        "0000:2b:00.1": ("0x10de", "0x040300"),  # its audio function
        "0000:05:00.0": ("0x10de", "0x068000"),  # an NVSwitch
        "0000:03:00.0": ("0x1a03", "0x030000"),  # the board's own graphics
        "0000:1b:00.4": ("0x10de", "0x030200"),  # a virtual function
    }
    for address, (vendor, kind) in devices.items():
        (tmp_path / address).mkdir()
        (tmp_path / address / "vendor").write_text(vendor + "\n")
        (tmp_path / address / "class").write_text(kind + "\n")
    (tmp_path / "0000:1b:00.4" / "physfn").symlink_to("../0000:1b:00.0")
    assert gpu_inventory.count_pci(str(tmp_path)) == 2
    assert gpu_inventory.count_pci(str(tmp_path / "absent")) is None


def test_firmware_of_adapters_is_named_once_each(tmp_path: Path) -> None:
    for name, version in (("mlx5_0", "28.39.1002"), ("mlx5_1", "28.39.1002"), ("mlx5_2", "28.38.1002"), ("mlx5_3", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fw_ver").write_text(version + "\n")
    assert gpu_inventory.adapter_firmware(str(tmp_path)) == ["28.38.1002", "28.39.1002"]
