"""A plot that reads at every width: shapes scale with the page, words and numbers do not.

The drawing is an SVG in data coordinates, stretched to its box; ticks are HTML beside it, placed in percent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlxdiag.reports.html.markup import Content, Html, tag

Range = tuple[float, float]
Tick = tuple[float, str]
LEAST = 110
"""Pixels of height below which the title of the upright axis has no room; the label says it."""


def ticks(low: float, high: float, wanted: int = 5) -> list[Tick]:
    """Round numbers between `low` and `high`, both included."""
    span = high - low
    if span <= 0:
        return [(low, number(low))]
    raw = span / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = max(1.0, next(power * m for m in (1, 2, 5, 10) if raw <= power * m))
    first = math.ceil(low / step) * step
    found: list[Tick] = []
    at = first
    while at <= high + 1e-9 and len(found) < 50:
        found.append((at, number(at)))
        at += step
    return found


def number(value: float) -> str:
    """`1024`, `0.001`, `6.1`."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"


def plot(
    shapes: Content,
    x: Range,
    y: Range,
    *,
    label: str,
    height: int,
    x_ticks: Sequence[Tick],
    y_ticks: Sequence[Tick],
    x_title: str,
    y_title: str,
    down: bool = False,
    overlay: Content = "",
    name: str = "plot",
) -> Html:
    """Shapes in data coordinates; `y` grows upward unless `down`. `label` says it all in words."""
    width, tall = max(x[1] - x[0], 1e-9), max(y[1] - y[0], 1e-9)

    def across(value: float) -> float:
        return 100 * (value - x[0]) / width

    def along(value: float) -> float:
        part = 100 * (value - y[0]) / tall
        return part if down else 100 - part

    grid = "".join(tag("i", class_="gx", style=f"left:{across(at):.3f}%") for at, _ in x_ticks)
    grid += "".join(tag("i", class_="gy", style=f"top:{along(at):.3f}%") for at, _ in y_ticks)
    drawing = tag(
        "svg",
        tag("g", shapes, transform=None if down else f"matrix(1 0 0 -1 0 {y[0] + y[1]:g})"),
        viewBox=f"{x[0]:g} {y[0]:g} {width:g} {tall:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    xs = "".join(
        tag("span", said, style=f"left:{across(at):.3f}%", class_=_edge(across(at))) for at, said in x_ticks
    )
    ys = "".join(tag("span", said, style=f"top:{along(at):.3f}%") for at, said in y_ticks)
    return tag(
        "div",
        tag("div", y_title if height >= LEAST else "", class_="yt"),
        tag("div", Html(ys), class_="ys", aria_hidden="true"),
        tag("div", Html(grid), drawing, overlay, class_="box", style=f"height:{height}px"),
        tag("div", Html(xs), class_="xs", aria_hidden="true"),
        tag("div", x_title, class_="xt"),
        class_=name,
    )


def _edge(percent: float) -> str | None:
    return "l" if percent < 4 else "r" if percent > 96 else None
