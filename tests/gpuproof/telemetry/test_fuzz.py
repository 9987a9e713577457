"""Two hundred damaged pages: none crashes the harness, none passes, and each says why."""

from __future__ import annotations

import random

import pytest

from gpuproof.finding import Context
from gpuproof.telemetry.export import export_of
from gpuproof.verdict import Judgement, Verdict, judge
from tests.gpuproof.telemetry.pages import PROFILE, SETTINGS, UUIDS, history_of, page, scraped

CHECK = "dcgm_export"
GOOD = page()
WORTHLESS = ("NaN", "+Inf", "", "1e400", "9223372036854775794", "watts", "--1", "0x1F", "140737488355329")


def judged(body: bytes) -> Judgement:
    """The verdict on a node whose exporter answers with this body."""
    measurement = export_of(history_of(scraped(body)), SETTINGS, UUIDS, run_id="r", since=0.0, node_name="n1")
    return judge(CHECK, "n1", measurement, PROFILE.limits_for(CHECK), Context(PROFILE.cluster))


def required_lines(lines: list[str]) -> list[int]:
    """The lines without any of which the page is not complete."""
    return [number for number, line in enumerate(lines) if line.partition("{")[0] in SETTINGS.fields]


def damaged(seed: int) -> bytes:  # noqa: C901 - a case a kind of damage
    """The good page, made worthless in one of a dozen ways."""
    dice = random.Random(seed)
    lines = GOOD.splitlines(keepends=True)
    number = dice.choice(required_lines(lines))
    name, _, rest = lines[number].partition("{")
    inside, _, value = rest.rpartition("} ")
    match seed % 12:
        case 0:
            return GOOD.encode()[: dice.randrange(len("".join(lines[:number])) + len(lines[number]))]
        case 1:
            del lines[number]
        case 2:
            lines[number] = f"{name}{{{inside}}} {dice.choice(WORTHLESS)}\n"
        case 3:
            lines[number] = f"{name}{{{inside.replace('UUID', dice.choice(('uuid', 'UUID2', 'U')))}}} {value}"
        case 4:
            lines.insert(number, f'{name}{{{inside},hpc_job="{seed}"}} {value}')
        case 5:
            lines[number] = name[:3] + dice.choice('x{}"\\ #\x00é,=') + lines[number][3:]
        case 6:
            return dice.randbytes(dice.randrange(1, 5000))
        case 7:
            return GOOD.replace(UUIDS[1], "GPU-" + "0" * dice.randrange(40)).encode()
        case 8:
            return ("{" * dice.randrange(1, 5000) + "\n").encode() + GOOD.encode()
        case 9:
            quote = lines[number].index('"')
            lines[number] = lines[number][:quote] + lines[number][quote + 1 :]
        case 10:
            data = bytearray(GOOD.encode())
            place = len("".join(lines[:number])) + dice.randrange(len(name))
            data[place] = dice.randrange(128, 256)
            return bytes(data)
        case _:
            del lines[number:]
    return "".join(lines).encode()


def test_the_page_that_is_damaged_passes_when_it_is_not() -> None:
    assert judged(GOOD.encode()).verdict is Verdict.PASS


@pytest.mark.parametrize("kind", range(12))
def test_no_damaged_page_passes(kind: int) -> None:
    for seed in range(kind, 204, 12):
        body = damaged(seed)
        got = judged(body)
        assert got.verdict is Verdict.FAIL, (seed, body[:300])
        assert got.reasons
