"""nvidia-smi's text, read with distrust: what stands for no value is none, and damage is never a sound listing.

Formats: NVIDIA's manual page of nvidia-smi (CSV header with units, `[N/A]`, `[Not Supported]`), and the words that
users show for sick GPUs (`ERR!`, `[GPU requires reset]`, `[Unknown Error]`, lone error lines). Identities are made up.
"""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.fleet import seen_values
from gpuproof.profile import find_profile, load_profile
from gpuproof.verdict import Context, Verdict, judge
from tests.gpuproof.test_false_passes import inventory
from workloads import gpu_inventory, smi_text, versions
from workloads.contract import Measurement, Sample, encode, parse

IDENTITIES = ["GPU-1b4c8a52-6d9a-4f4e-9f6b-0d1f5a1c7e33", "GPU-2c5d9b63-7eab-4a5f-8a7c-1e2a6b2d8f44"]
HEADER = "index, uuid, name, driver_version, memory.total [MiB], mig.mode.current, vbios_version"
ROWS = [f"{n}, {uuid}, SIMULATED-GPU, 580.82.07, 81559 MiB, Disabled, 96.00" for n, uuid in enumerate(IDENTITIES)]
SOUND = "\n".join([HEADER, *ROWS]) + "\n"
WORDS = [
    "ERR!",
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "[GPU requires reset]",
    "[Unknown Error]",
    "[Insufficient Permissions]",
    "",
]
LONE = [
    "Failed to initialize NVML: Unknown Error",
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.195",
    "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
    "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "No devices were found",
    'Field "vbios_version" is not a valid field to query.',
]
TODAY = dt.datetime.now(dt.UTC).date()
CHECKS = load_checks()
PROFILE = load_profile(find_profile("simulated"), known_checks=subjects_asked(CHECKS), today=TODAY)


def verdict(written: str, error: str = versions.NONE) -> Verdict:
    """What a node earns whose nvidia-smi wrote this, everything else being sound."""
    rows, said = gpu_inventory.table_of(written, error)
    facts = {**inventory("gpu-01").facts, **gpu_inventory.facts_of(rows, [], said)}
    sound = [sample for sample in inventory("gpu-01").samples if sample.metric != "gpus_visible"]
    samples = (*sound, Sample("gpus_visible", float(len(rows)), "count"))
    found = parse(encode(Measurement("gpu_inventory", "run", "gpu-01", "pod", 1, 1, samples, facts)))
    limits = PROFILE.limits_for("gpu_inventory")
    fleet = {"gpu-01": [found], **{name: [inventory(name)] for name in ("gpu-02", "gpu-03", "gpu-04")}}
    context = Context(PROFILE.cluster, seen=seen_values(limits, fleet, 4))
    return judge("gpu_inventory", "gpu-01", found, limits, context).verdict


def test_a_sound_listing_passes_or_all_of_this_would_prove_nothing() -> None:
    assert verdict(SOUND) is Verdict.PASS
    assert verdict("WARNING: infoROM is corrupted at gpu 0000:1B:00.0\n" + SOUND) is Verdict.PASS


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("column", range(5))
def test_a_word_in_the_place_of_an_essential_value_is_never_passed(word: str, column: int) -> None:
    cells = ROWS[1].split(", ")
    cells[column] = word
    written = "\n".join([HEADER, ROWS[0], ", ".join(cells)]) + "\n"
    assert verdict(written) is Verdict.FAIL
    (said, *_) = smi_text.unreadable(smi_text.rows_of(written))
    assert said == f"GPU 1 {smi_text.ESSENTIAL[column]}: {word or 'empty'}"


@pytest.mark.parametrize("line", LONE)
def test_a_lone_error_line_is_no_table_and_is_quoted(line: str) -> None:
    rows, said = gpu_inventory.table_of(line, versions.NONE)
    assert rows == []
    assert said == "nvidia-smi wrote no table: " + " ".join(line.split())
    assert verdict(line) is Verdict.FAIL


def damaged(text: str, dice: random.Random) -> str:
    """The text with one to four pieces of it lost, doubled, exchanged for something else, or cut off."""
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.randint(1, 60))
        instead = dice.choice(
            ["", text[start:end] * 2, dice.choice(WORDS), dice.choice(LONE), "\x00", "\n", "\ufffd", ","]
        )
        text = text[:start] if dice.random() < 0.1 else text[:start] + instead + text[end:]
    return text


def says_the_same(text: str) -> bool:
    """Whether the damage left every essential cell of both GPUs as it was (it hit blanks, or what nobody needs)."""
    rows = smi_text.rows_of(text)
    return [[row.get(name) for name in smi_text.ESSENTIAL] for row in rows] == [row.split(", ")[:5] for row in ROWS]


@pytest.mark.parametrize("seed", range(200))
def test_damaged_text_neither_crashes_the_reader_nor_passes(seed: int) -> None:
    dice = random.Random(seed)
    text = damaged(SOUND, dice)
    while says_the_same(text):
        text = damaged(text, dice)
    assert verdict(text) in (Verdict.FAIL, Verdict.ERROR), text


@given(st.text())
def test_any_text_is_read_without_a_crash(text: str) -> None:
    rows = smi_text.rows_of(text)
    assert len(smi_text.unreadable(rows)) >= len(rows)
    assert smi_text.slices_of(text) == []


@pytest.mark.parametrize(
    ("cell", "mib"),
    [("81559 MiB", 81559.0), ("0 MiB", 0.0), ("81559", None), ("-1 MiB", None), ("8e3 MiB", None), ("[N/A]", None)],
)
def test_memory(cell: str, mib: float | None) -> None:
    assert smi_text.memory_mib(cell) == mib


def test_instances_are_read_from_the_listing() -> None:
    text = (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {IDENTITIES[0]})\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-7e1f0a52-6d9a-4f4e-9f6b-0d1f5a1c7e33)\n"
        "  MIG 1g.10gb+me  Device  1: (UUID: MIG-8e1f0a52-6d9a-4f4e-9f6b-0d1f5a1c7e33)\n"
    )
    first, second = smi_text.slices_of(text)
    assert (first.profile, second.profile) == ("1g.10gb", "1g.10gb+me")
    assert first.uuid == "MIG-7e1f0a52-6d9a-4f4e-9f6b-0d1f5a1c7e33"
