"""Owns how a chart is drawn: pygal's geometry as small, script-free SVG that the page's own style colours.

Must not know a run, a check or a verdict. Every text is data of hostile origin: it ends as escaped text of an element
or not at all, and nothing but the elements and attributes named here leaves this module.
"""

import math
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from gpuproof.report.wording import number, visible

_SVG = "{http://www.w3.org/2000/svg}"
_KEPT = {
    "svg": {"viewBox"},
    "g": {"class", "transform"},
    "path": {"class", "d"},
    "rect": {"class", "x", "y", "width", "height"},
    "circle": {"class", "cx", "cy", "r"},
    "text": {"class", "x", "y", "transform"},
}
_DIGITS = re.compile(r"-?\d+\.\d+")
_WIDTH, _HEIGHT = 720, 300
_MOST_NAME_CHARS = 60
# pygal breaks a long title into lines until there is no room for the chart, and then for ever.
_MOST_TITLE_CHARS = 32
_MOST_CORNER_CHARS = 20
_LARGEST = 1e60
SHADES = 8
"""How many steps a heat map has; the page's style colours h0 (lowest) to h7 (highest)."""

COLOURS = 8
"""How many series have a colour of their own, c0 to c7."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One line of a chart; `role` is `data` or `limit`, `points` are x and y in the chart's units, finite."""

    name: str
    points: tuple[Point, ...]
    role: str = "data"


def lines(
    title: str,
    drawn: Sequence[Line],
    *,
    x_title: str,
    y_title: str,
    x_text: Callable[[float], str] = number,
    log_x: bool = False,
    height: int = _HEIGHT,
) -> Markup:
    """Return lines over a common x; `log_x` spaces x by its binary logarithm. What is not finite is left out."""
    moved = [
        Line(line.name, tuple(p for p in _scaled(line.points, log_x) if all(map(_drawable, p))), line.role)
        for line in drawn
    ]
    # A limit that is drawn half a step to both sides of its size must not name sizes that nothing was measured at.
    measured = [line for line in moved if line.role == "data"]
    places = sorted({x for line in measured or moved for x, _ in line.points})
    chart = _pygal().XY(
        **_options(height),
        x_title=_name(x_title, _MOST_TITLE_CHARS),
        y_title=_name(y_title, _MOST_TITLE_CHARS),
        show_dots=len(places) <= 64,
        range=_range([y for line in moved for _, y in line.points]),
        x_value_formatter=lambda x: x_text(2.0**x if log_x else x),
        formatter=_figure,
        x_labels=_some(places) if places else None,
        legend_at_bottom=True,
        legend_at_bottom_columns=3,
        show_legend=len(moved) > 1,
    )
    for line in moved:
        chart.add(_name(line.name), list(line.points))
    return _cleaned(chart, [line.role for line in moved], label=title)


def bars(title: str, rows: Mapping[str, Sequence[float]], parts: Sequence[str], *, x_title: str) -> Markup:
    """Return one horizontal bar a row, made of `parts` one after another, in `x_title`'s unit."""
    chart = _pygal().HorizontalStackedBar(
        **_options(90 + 26 * len(rows)),
        x_title=_name(x_title, _MOST_TITLE_CHARS),
        x_labels=[_name(row) for row in reversed(list(rows))],
        formatter=_figure,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(parts),
    )
    for index, part in enumerate(parts):
        chart.add(_name(part), [_finite(values[index]) for values in reversed(list(rows.values()))])
    return _cleaned(chart, ["data"] * len(parts), label=title)


def distribution(title: str, bins: Sequence[tuple[float, float, int]], *, x_title: str) -> Markup:
    """Return a histogram of `bins` (from, to, how many)."""
    edges = sorted({edge for low, high, _ in bins for edge in (low, high)})
    chart = _pygal().Histogram(
        **_options(240),
        x_title=_name(x_title, _MOST_TITLE_CHARS),
        y_title="values",
        x_labels=_some(edges),
        x_value_formatter=_figure,
        formatter=_figure,
        show_legend=False,
    )
    chart.add("values", [(count, low, high) for low, high, count in bins])
    return _cleaned(chart, ["data"], label=title)


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[int, int], float]) -> Markup:
    """
    Return a map of `cells` by (row, column), shaded h0 to h7 from the lowest to the highest value; absent cells stay
    empty. Its geometry is pygal's stacked bars of height one: a column a bar, a row a layer.
    """
    found = list(cells.values())
    low, high = (min(found), max(found)) if found else (0.0, 0.0)
    chart = _pygal().StackedBar(
        **_options(110 + max(8, 480 // max(len(rows), 20)) * len(rows), bottom=70),
        x_labels=[_name(column, _MOST_CORNER_CHARS) for column in columns],
        x_label_rotation=60,
        y_labels=[
            {"value": index + 0.5, "label": _name(row, _MOST_CORNER_CHARS)} for index, row in enumerate(reversed(rows))
        ],
        range=(0, len(rows)),
        spacing=0,
        show_legend=False,
        show_y_guides=False,
    )
    shades: list[list[str]] = []
    for place in range(len(rows) - 1, -1, -1):
        chart.add("", [1] * len(columns))
        shades.append([_shade(cells.get((place, column)), low, high) for column in range(len(columns))])
    return _cleaned(chart, ["cells"] * len(rows), shades, label=title)


def _shade(value: float | None, low: float, high: float) -> str:
    if value is None:
        return "none"
    share = (value - low) / (high - low) if high > low else 1.0
    return f"h{min(SHADES - 1, int(share * SHADES))}"


def _scaled(points: Sequence[Point], log_x: bool) -> list[Point]:
    return [(math.log2(x), y) for x, y in points if x > 0] if log_x else list(points)


def _range(values: Sequence[float]) -> tuple[float, float]:
    # From zero: a small step must not look like a cliff.
    low, high = min([0.0, *values]), max([0.0, *values])
    return (low, high * 1.05) if high > low else (0.0, 1.0)


def _drawable(value: float) -> bool:
    # Beyond this pygal's own arithmetic overflows; nothing that was measured is there.
    return math.isfinite(value) and (value == 0 or 1 / _LARGEST < abs(value) < _LARGEST)


def _finite(value: float) -> float | None:
    return value if _drawable(value) else None


def _figure(value: Any) -> str:
    # pygal asks for the text of a whole point too, for a tooltip that is not kept.
    return number(value) if isinstance(value, int | float) else ""


def _some(places: Sequence[float], most: int = 10) -> list[float]:
    step = max(1, math.ceil(len(places) / most))
    return list(places[::step])


def _name(text: str, most: int = _MOST_NAME_CHARS) -> str:
    # What XML cannot hold is spelled out or left out: a chart must parse whatever its names are.
    plain = "".join(c for c in visible(text, keep_newlines=False) if c not in "\ufffe\uffff")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


@cache
def _pygal() -> Any:
    import pygal  # noqa: PLC0415 - a tenth of a second that only a page with a chart needs

    # It leaves a finder for its maps that knows only the old way to find modules, at which every later import warns.
    sys.meta_path[:] = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return pygal


def _options(height: int, bottom: int = 10) -> dict[str, Any]:
    return {
        "js": (),
        "css": (),
        "no_prefix": True,
        "disable_xml_declaration": True,
        "width": _WIDTH,
        "height": height,
        "margin_top": 10,
        "margin_left": 10,
        "margin_right": 16,
        "margin_bottom": bottom,
        "truncate_label": -1,
        "truncate_legend": -1,
        "tooltip_fancy_mode": False,
        "no_data_text": "nothing measured",
    }


def _cleaned(chart: Any, roles: Sequence[str], shades: Sequence[Sequence[str]] = (), *, label: str) -> Markup:
    """Return the chart without script, style, tooltips, identifiers and links, its numbers rounded."""
    root = ET.fromstring(chart.render(is_unicode=True))
    for index, each in enumerate(shades):
        for rect, shade in zip(_series(root, index).iter(f"{_SVG}rect"), each, strict=True):
            rect.set("class", shade)
    for index, role in enumerate(roles):
        for group in root.iter(f"{_SVG}g"):
            if f"serie-{index}" in (group.get("class") or "").split():
                colour = "" if shades else f"c{index % COLOURS} "
                group.set("class", f"series {colour}{role}")
        for mark in root.iter(f"{_SVG}rect"):
            if f"color-{index}" in (mark.get("class") or "").split():
                mark.set("class", f"key c{index % COLOURS} {role}")
    svg = _copy(root)
    svg.set("role", "img")
    svg.set("aria-label", _name(label))
    return Markup(ET.tostring(svg, encoding="unicode", short_empty_elements=True))


def _series(root: ET.Element, index: int) -> ET.Element:
    return next(e for e in root.iter(f"{_SVG}g") if f"serie-{index}" in (e.get("class") or "").split())


def _copy(element: ET.Element) -> ET.Element:
    name = element.tag.removeprefix(_SVG)
    made = ET.Element(name)
    made.text = element.text if name == "text" else None
    for key, value in element.attrib.items():
        if key in _KEPT[name] and value:
            made.set(key, _DIGITS.sub(lambda found: f"{float(found.group()):.1f}", value))
    for child in element:
        if _wanted(child):
            made.append(_copy(child))
    return made


def _wanted(element: ET.Element) -> bool:
    tag: object = element.tag  # a function, where the element is a comment
    if not isinstance(tag, str) or tag.removeprefix(_SVG) not in _KEPT:
        return False
    words = (element.get("class") or "").split()
    if {"tooltip-overlay", "text-overlay", "tooltip"} & set(words):
        return False
    return element.tag != f"{_SVG}g" or any(True for _ in element)
