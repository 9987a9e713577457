"""The blame in report.html: whom, both numbers against the floor, drawn and in words; hostile text stays text."""

import re
from typing import Any

import pytest

from gpuproof.report import RunView
from gpuproof.report.html import render_html
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines

COUNTERFACTUAL = "with all nodes 0.011 GB/s, without the blamed 0.12 GB/s: the blame stands"
BLAME = ["gpu-3: slow with gpu-1, gpu-2 (0.012 GB/s)", COUNTERFACTUAL]


def blaming(blame: list[str], rates: dict[str, Any], floor: str = "0.015 GB/s", said: str = COUNTERFACTUAL) -> Lines:
    """A run whose first measurement says whom it blames."""
    lines = synthetic.run(4)
    line = next(line for line in lines if line["event"] == "measurement")
    line["samples"] = [{"metric": name, "value": rate, "unit": "GB/s", "at": {}} for name, rate in rates.items()]
    line["facts"] = {"blame": blame, "counterfactual": said}
    line["environment"] = {"floor": floor}
    return lines


def panel(lines: Lines) -> str:
    html = render_html(RunView.from_record(lines))
    found = re.findall(r'<figure class="chart blame">.*?</figure>', html, re.DOTALL)
    assert len(found) <= 1
    return found[0] if found else ""


def test_both_numbers_stand_against_the_floor_drawn_and_in_words() -> None:
    shown = panel(blaming(BLAME, {"whole_busbw": 0.011, "without_busbw": 0.12}))
    words = " ".join(re.sub(r"<[^>]*>", " ", shown).split())
    assert "gpu-3: slow with gpu-1, gpu-2" in words
    assert "With all nodes: 0.011 GB/s, 0.73 times the floor of 0.015 GB/s: below it" in words
    assert "Without the blamed: 0.12 GB/s, 8 times the floor of 0.015 GB/s: at or above it" in words
    assert words.count(COUNTERFACTUAL) == 1
    low, good = re.findall(r'<rect class="(\w+)" [^>]*width="([\d.]+)"', shown)
    assert (low[0], good[0]) == ("low", "good")
    assert float(good[1]) / float(low[1]) == pytest.approx(0.12 / 0.011, rel=0.01)
    (at,) = re.findall(r'class="floor" d="M([\d.]+) ', shown)
    assert 150 + float(low[1]) < float(at) < 150 + float(good[1])


@pytest.mark.parametrize(
    ("rates", "floor", "said"),
    [
        ({"whole_busbw": 0.011}, "0.015 GB/s", "Without the blamed: nothing was measured"),
        ({"without_busbw": 0.12}, "0.015 GB/s", "With all nodes: nothing was measured"),
        ({"whole_busbw": "nan", "without_busbw": 0.12}, "0.015 GB/s", "With all nodes: nothing was measured"),
        ({"whole_busbw": 0.011, "without_busbw": 0.12}, "", "no floor is recorded"),
        ({"whole_busbw": 0.05, "without_busbw": 0.12}, "0.015 GB/s", "The rate was not what the whole set missed"),
    ],
)
def test_what_is_not_known_is_said(rates: dict[str, Any], floor: str, said: str) -> None:
    assert said in panel(blaming(BLAME, rates, floor))


def test_nobody_blamed_has_no_panel() -> None:
    assert panel(blaming(["nobody"], {"whole_busbw": 0.1}, said="not needed")) == ""
    assert panel(synthetic.run(4)) == ""


def test_hostile_words_stay_text() -> None:
    hostile = "<script>alert(1)</script>"
    rates = {"whole_busbw": 0.011, "without_busbw": 0.12}
    shown = panel(blaming([hostile, hostile], rates, hostile, hostile))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
