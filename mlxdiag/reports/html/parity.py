"""Logits against the reference over positions, with the tolerance drawn in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlxdiag.reports.html.markup import Html, join, tag
from mlxdiag.reports.html.page import table
from mlxdiag.reports.html.plot import number, plot, ticks
from mlxdiag.reports.html.story import Compared

DECADES = 3
"""Drawn below the tolerance at least."""
OPEN, MOST = 3, 40
"""Sequences that are shown at once, and those that can be unfolded."""
SPECK = 0.08
"""Part of all positions below which the wrong ones are drawn larger."""
DRAWN = 3000
ROWS = 40


def panels(compared: Sequence[Compared]) -> Html:
    """A plot a sequence."""
    sequences: dict[str, list[Compared]] = {}
    for one in compared:
        sequences.setdefault(one.seq, []).append(one)
    ranked = sorted(sequences, key=lambda seq: -max(one.max_abs for one in sequences[seq]))
    wrong = sum(any(_apart(one) for one in found) for found in sequences.values())
    first = min(max(wrong, 1), OPEN)
    shown = join(_panel(seq, sequences[seq]) for seq in ranked[:first])
    rest = join(
        tag("details", tag("summary", seq), _panel(seq, sequences[seq])) for seq in ranked[first:MOST]
    )
    return join((shown, rest))


def _range(found: Sequence[Compared]) -> tuple[int, int]:
    """All positions; where the wrong ones are a speck at the end, those and as many before."""
    start, stop = min(one.start for one in found), max(one.stop for one in found)
    wrong = [one for one in found if _apart(one)]
    if wrong:
        first = min(one.start for one in wrong)
        if stop - first < (stop - start) * SPECK:
            return max(start, first - 2 * (stop - first)), stop
    return start, stop


def _apart(one: Compared) -> bool:
    return one.first is not None or not math.isfinite(one.max_abs)


def _panel(seq: str, found: Sequence[Compared]) -> Html:
    tolerance = next((one.tolerance for one in found if one.tolerance), None)
    if not any(one.max_abs for one in found):
        said = f"{sentence(found, tolerance)} Nothing to draw."
        return tag("figure", tag("figcaption", tag("b", seq), " ", said), _table(found))
    finite = [one.max_abs for one in found if math.isfinite(one.max_abs) and one.max_abs > 0]
    base = tolerance or min(finite, default=1e-3)
    floor = math.floor(min([math.log10(base) - DECADES, *(math.log10(value) for value in finite)]))
    ceiling = math.ceil(max([math.log10(base) + 1, *(math.log10(value) + 0.2 for value in finite)]))
    x = _range(found)
    shapes = [
        _lines([one for one in found if _apart(one) == wrong], floor, ceiling, wrong)
        for wrong in (False, True)
    ]
    if tolerance:
        level = math.log10(tolerance)
        shapes[:0] = [
            tag("rect", x=x[0], y=floor, width=x[1] - x[0], height=f"{level - floor:.4f}", class_="within"),
            tag("path", d=f"M{x[0]} {level:.4f}H{x[1]}", class_="s tolerance"),
        ]
    noise = _noise(found)
    if noise > 0:
        shapes.append(tag("path", d=f"M{x[0]} {math.log10(noise):.4f}H{x[1]}", class_="s noise"))
    y_ticks = [(float(power), f"1e{power}" if power else "1") for power in range(floor + 1, ceiling + 1)]
    y_ticks = y_ticks[:: max(1, len(y_ticks) // 5)]
    label = sentence(found, tolerance)
    if x[0] > min(one.start for one in found):
        label += f" Positions before {x[0]} agree and are not drawn."
    if any(not math.isfinite(one.max_abs) for one in found):
        y_ticks = [tick for tick in y_ticks if tick[0] < ceiling - 0.5] + [(float(ceiling), "NaN")]
    drawing = plot(
        join(shapes),
        x,
        (floor, ceiling),
        label=label,
        height=170,
        x_ticks=ticks(*x),
        y_ticks=[(float(floor), "0"), *y_ticks],
        x_title="position",
        y_title="largest logit difference",
        name="plot",
    )
    return tag(
        "figure",
        tag("figcaption", tag("b", seq), " ", label),
        drawing,
        _legend(found, tolerance),
        _table(found),
    )


def sentence(found: Sequence[Compared], tolerance: float | None) -> str:
    """What the plot says."""
    positions = sum(one.stop - one.start for one in found)
    named = found[0].reference
    reference = "the single pass" if named == "single-pass" else named
    limit = f" (tolerance {number(tolerance)})" if tolerance else ""
    wrong = [one for one in found if _apart(one)]
    right = [one.max_abs for one in found if not _apart(one)]
    noise = f"; where they agree, the largest difference is {number(max(right))}" if right else ""
    if not wrong:
        return f"The logits of {positions} positions agree with {reference}{limit}{noise}."
    first = min((one.first for one in wrong if one.first is not None), default=wrong[0].start)
    worst = max(one.max_abs for one in wrong)
    said = "NaN" if not math.isfinite(worst) else number(worst)
    return (
        f"{len(wrong)} of {len(found)} steps part from {reference}, first at position {first}, "
        f"by up to {said}{limit}{noise}."
    )


def _noise(found: Sequence[Compared]) -> float:
    """The largest difference of the steps that agree."""
    return max((one.max_abs for one in found if not _apart(one)), default=0.0)


def _lines(found: Sequence[Compared], floor: int, ceiling: int, wrong: bool) -> Html:
    path = "".join(
        f"M{one.start} {_height(one.max_abs, floor, ceiling):.4f}H{one.stop}" for one in found[:DRAWN]
    )
    return tag("path", d=path, class_=f"s {'apart' if wrong else 'agree'}") if path else Html("")


def _height(value: float, floor: int, ceiling: int) -> float:
    if not math.isfinite(value):
        return ceiling
    return max(math.log10(value), floor) if value > 0 else floor


def _legend(found: Sequence[Compared], tolerance: float | None) -> Html:
    entries = []
    if any(not _apart(one) for one in found):
        entries.append(tag("li", tag("i", class_="k agree"), "within tolerance"))
    if any(_apart(one) for one in found):
        entries.append(tag("li", tag("i", class_="k apart"), "beyond it"))
    noise = _noise(found)
    if noise > 0:
        entries.append(tag("li", tag("i", class_="k noise"), f"noise: at most {number(noise)}"))
    if tolerance:
        entries.append(tag("li", tag("i", class_="k tolerance"), f"tolerance {number(tolerance)}"))
    return tag("ul", *entries, class_="legend")


def _table(found: Sequence[Compared]) -> Html:
    rows = [
        (
            str(one.step if one.step is not None else one.place + 1),
            f"{one.start}–{one.stop - 1}" if one.stop - one.start > 1 else str(one.start),
            number(one.max_abs) if math.isfinite(one.max_abs) else "NaN",
            "–" if one.first is None else str(one.first),
            "–" if one.margin is None else number(one.margin),
        )
        for one in found[:ROWS]
    ]
    more = f", the first {ROWS} of {len(found)} steps" if len(found) > ROWS else ""
    head = ("step", "positions", "largest difference", "first apart", "top-2 margin there")
    return tag("details", tag("summary", "as a table"), table(head, rows, f"Logits compared{more}"))
