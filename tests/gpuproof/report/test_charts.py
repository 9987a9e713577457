"""Charts: pygal's geometry without anything that acts, and hostile names that stay text."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from gpuproof.report import RunView, charts
from gpuproof.report.charts import Line
from gpuproof.report.html import render_html
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Script

ELEMENTS = {"svg", "g", "path", "rect", "circle", "text"}
ATTRIBUTES = {"viewBox", "role", "aria-label", "class", "transform", "d", "x", "y", "width", "height", "cx", "cy", "r"}
EVIL = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 500
CHARTS: dict[str, Callable[[str], Markup]] = {
    "lines": lambda name: charts.lines(
        name, [Line(name, ((1.0, 2.0), (1024.0, 3.0), (2048.0, math.nan)))], x_title=name, y_title=name, log_x=True
    ),
    "no line": lambda name: charts.lines(name, [], x_title=name, y_title=name),
    "bars": lambda name: charts.bars(name, {name: (1.0, math.inf)}, (name, "b"), x_title=name),
    "distribution": lambda name: charts.distribution(name, [(0.0, 1.0, 3), (1.0, 2.0, 0)], x_title=name),
    "heat map": lambda name: charts.heat_map(name, [name, "b"], ["a", name], {(0, 1): 1.0, (1, 0): 2.0}),
    "empty heat map": lambda name: charts.heat_map(name, [name], [name], {}),
}


@pytest.mark.parametrize("kind", CHARTS)
@pytest.mark.parametrize("name", ["busbw", EVIL, ""])
def test_a_chart_holds_geometry_and_text_and_nothing_that_acts(kind: str, name: str) -> None:
    svg = CHARTS[kind](name)

    root = ET.fromstring(svg)
    assert {element.tag for element in root.iter()} <= ELEMENTS
    assert {key for element in root.iter() for key in element.attrib} <= ATTRIBUTES
    assert root.get("role") == "img"
    assert "nan" not in " ".join(element.get("d", "") for element in root.iter())
    assert "\x1b" not in svg
    assert "\u202e" not in svg
    assert all(len(text) <= 64 for text in root.itertext())


@given(st.text(min_size=1, max_size=40), st.floats(allow_nan=True, allow_infinity=True))
@settings(max_examples=40, deadline=None)
def test_any_name_and_number_gives_a_picture_that_parses(name: str, value: float) -> None:
    svg = charts.lines(name, [Line(name, ((1.0, value), (2.0, 1.0)))], x_title=name, y_title=name)
    assert ET.fromstring(svg).tag == "svg"


def test_a_heat_map_shades_from_the_lowest_to_the_highest() -> None:
    cells = {(0, 0): 1.0, (0, 1): 5.0, (1, 1): 9.0}
    root = ET.fromstring(charts.heat_map("pairs", ["a", "b"], ["a", "b"], cells))
    shades = sorted(element.get("class", "") for element in root.iter("rect") if element.get("class") != "background")
    assert shades == ["h0", "h4", "h7", "none"]


def network() -> Script:
    """A run whose samples have sizes, pairs and GPUs."""
    script, nodes = Script(), synthetic.names(4)
    limit = synthetic.limit("nccl.busbw", "nccl", "busbw", ">= 40 GB/s", "GB/s", at={"bytes": 1 << 20})
    check = {"check": "nccl", "state": "required", "question": "Is it fast?", "why": "It is what was paid for."}
    synthetic.begin(script, nodes, checks=[check], limits=[limit])
    script.lines[2]["subjects"] = [{"check": "nccl", "subject": "cluster", "required": True}]
    samples = [
        {
            "metric": "busbw",
            "value": float(size.bit_length()),
            "unit": "GB/s",
            "at": {"bytes": size, "collective": word},
        }
        for size in (1 << 10, 1 << 20, 1 << 30)
        for word in ("all_reduce", "all_gather")
    ]
    samples += [
        {"metric": "pair_rate", "value": float(i * 4 + j), "unit": "GB/s", "at": {"from": a, "to": b}}
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
        if a != b
    ]
    samples += [{"metric": "clock", "value": 1000.0 + gpu, "unit": "MHz", "at": {"gpu": gpu}} for gpu in range(3)]
    timings = {"scheduled_s": 0.5, "started_s": 1.5, "measured_s": 9.0}
    script.add(
        "measurement", check="nccl", workload="nccl", subject="cluster", pod="p", index=0, samples=samples, facts={},
        environment={}, timings=timings,
    )  # fmt: skip
    columns = ["node", "gpu", "instance", "at_unix_s", "utilisation_percent", "power_w"]
    for at in (0.0, 1.0, 2.0, 3.0):
        rows = [[node, gpu, None, at, 10.0 * gpu, None] for node in nodes for gpu in (0, 1)]
        script.add("telemetry", check="nccl", workload="nccl", columns=columns, rows=rows, errors={})
    finding = synthetic.finding("nccl.busbw", "busbw", 21.0, ">= 40 GB/s", at={"bytes": 1 << 20}, outcome="missed")
    recorded = synthetic.finding("nccl.clock", "clock", 1000.0, "recorded, not judged", severity="record_only")
    synthetic.verdict(script, "nccl", "cluster", "FAIL", reasons=["too slow"], findings=[finding, recorded])
    return script


def test_a_check_gets_its_charts_from_the_points_of_its_samples() -> None:
    html = render_html(RunView.from_record(network().lines))

    for part in (
        "busbw against message size",
        "collective=all_reduce",
        "Dashed: the limit",
        "pair_rate between nodes",
        "Lowest, darkest: gpu-1 to gpu-2, 1 GB/s",
        "clock [MHz] by GPU",
        "Pods: scheduling, pulling and starting, running",
        "telemetry while it ran: utilisation",
        "Why it matters: It is what was paid for.",
        "-47.5 %",
        ">recorded<",
        "Next, the provider:",
    ):
        assert part in html, part
    assert "telemetry while it ran: power" not in html
    assert 'class="w met">' not in html
