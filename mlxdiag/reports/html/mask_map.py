"""The mask map: what each query should see against what it did see, in absolute positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import key_axis
from mlxdiag.reports import attended as look
from mlxdiag.reports.attended import Attended
from mlxdiag.reports.html.markup import Html, join, tag
from mlxdiag.reports.html.page import table
from mlxdiag.reports.html.plot import plot, ticks
from mlxdiag.reports.html.segments import FINE, MOST, Segment, outline, segments
from mlxdiag.reports.view import count

NAMES = {
    look.RIGHT: "due and seen",
    look.DUE: "due; what was seen is not recorded",
    look.MISSING: "due, not seen",
    look.OLD: "seen, older than due",
    look.FUTURE: "seen, lies in the future",
    look.PARTLY: "due and seen with gaps",
    look.PADDING: "padding, or a token taken back, is seen",
    look.FOREIGN: "a key of another sequence is seen",
}
SYMBOLS = {look.MISSING: "╱", look.PADDING: "p", look.FOREIGN: "f"}
"""Of single keys, which no shape shows."""
ROWS = 3
"""Rows of a batch that are drawn for a call: those with faults first."""
ROW_HEIGHT = 20
TALLEST = 340
SHORTEST = 56
"""Pixels."""


def title(call: Call) -> str:
    """`step 5 · chunk · sliding`."""
    step = f"step {call.entry.step}" if call.entry.step is not None else "unnumbered step"
    return " · ".join(part for part in (step, call.entry.kind, call.family) if part)


def figure(call: Call) -> Html | None:
    """The drawing of a call with its words; None where nothing about its queries is known."""
    rows = look.rows_of(call)
    rows = [row for row in rows if row.queries and row.span is not None]
    if not rows:
        return None
    chosen = sorted(rows, key=lambda row: -row.wrong)[: max(1, min(ROWS, sum(row.wrong > 0 for row in rows)))]
    left = len(rows) - len(chosen)
    more = (
        tag("p", f"{count(left, 'further row')} of this batch not drawn.", class_="note") if left > 0 else ""
    )
    drawn = join(_row(call, row, many=len(rows) > 1) for row in chosen)
    return tag("div", _lengths(call), drawn, more)


def _row(call: Call, row: Attended, many: bool) -> Html:
    held = segments(row)
    low, high = row.span or (0, 0)
    outside = sorted({kind for kind, _ in _gutter(row)})
    gutter = max(1, (high - low + 1) // 24)
    x = (low - gutter * len(outside), high + 1)
    real = [index for index, query in enumerate(row.queries) if query.real] or [0]
    y = (real[0], real[-1] + 1)
    positions = [query.position for query in row.queries[y[0] : y[1]]]
    label = sentence(call, row)
    marks = tag(
        "div", join(_shapes(held, x, y)), join(_marks(row, held, x, y)), class_="map", aria_hidden="true"
    )
    drawing = plot(
        "",
        x,
        y,
        label=label,
        height=min(TALLEST, max(SHORTEST, len(positions) * ROW_HEIGHT)),
        x_ticks=[(at + 0.5, said) for at, said in ticks(low, high)],
        y_ticks=[
            (at - positions[0] + y[0] + 0.5, said) for at, said in ticks(positions[0], positions[-1], 4)
        ],
        x_title="key position",
        y_title="query position",
        down=True,
        overlay=marks,
        name="plot maskplot",
    )
    head = f"{row.seq or f'row {row.row}'}" if many else ""
    return tag(
        "figure",
        tag("h4", head) if head else "",
        tag("figcaption", label),
        drawing,
        tag("p", f"{len(held) - MOST} further shapes are not drawn.", class_="note")
        if len(held) > MOST
        else "",
        _legend(row, held),
        _details(row, held),
        class_="mask",
    )


def sentence(call: Call, row: Attended) -> str:
    """What the drawing says, in words."""
    real = [query for query in row.queries if query.real]
    first, last = (real or row.queries)[0].position, (real or row.queries)[-1].position
    padding = len(row.queries) - len(real)
    more = f" and {padding} of padding" if padding else ""
    who = f"{count(len(real), 'query', 'queries')} at {_range((first, last))}{more}"
    layer = _layer(call)
    keys = f" over {call.k} returned keys" if call.k is not None else ""
    start = f"{who}{keys}, {layer}. "
    if row.origin == look.UNSEEN:
        return (
            f"{start}What was seen is not recorded ({row.basis}): the drawing shows what each query must see."
        )
    late = row.basis.partition("; ")[2]
    how = (
        f"Observed{f' ({late})' if late else ''}"
        if row.origin == look.OBSERVED
        else f"Derived from shapes, not observed ({row.basis})"
    )
    if not row.wrong:
        return f"{start}{how}: every query sees exactly what it must."
    empty = sum(query.seen == () for query in real)
    blind = f", {empty} of them no key at all" if empty else ""
    others = "".join(f"; {one}" for one in _others(row))
    return f"{start}{how}: {row.wrong} of {len(real)} do not see what they must{blind}{others}."


def _layer(call: Call) -> str:
    if call.kind == "full":
        return "each due every live key up to itself"
    if call.kind and call.window:
        due = (
            f"the last {call.window} with itself"
            if call.kind == "sliding"
            else f"its own block of {call.window}"
        )
        return f"each due {due}"
    return "on layers of unknown kind"


def _others(row: Attended) -> Iterator[str]:
    for name in ("missing", "future", "padding", "foreign"):
        total, listed = row.totals.get(name, 0), len(getattr(row, name))
        if total > listed > 0 or (name in ("padding", "foreign") and total):
            yield f"{total} {name} pairs" + (f" ({listed} of them drawn)" if total > listed else "")


def _lengths(call: Call) -> Html:
    """Returned keys and mask columns at one scale: a misfit is seen as a difference of length."""
    k, m = key_axis(call), call.m
    if k is None or m is None:
        return Html("")
    most = max(k, m, 1)
    bars = (("returned keys", k), ("mask columns", m))
    drawn = join(
        tag(
            "div",
            tag("span", f"{name} {size}"),
            tag(
                "i",
                style=f"width:{100 * size / most:.2f}%",
                class_="wrong" if k != m and name[0] == "m" else None,
            ),
        )
        for name, size in bars
    )
    gap = k - m
    said = "" if not gap else _lacking(gap, "key", "column") if gap > 0 else _lacking(-gap, "column", "key")
    fate = ": ".join(part for part in (call.fate, call.fallback or call.crop) if part and part != "used")
    after = f" The mask was {fate}." if fate else ""
    built = ""
    if gap and call.handed is not None and call.handed.offset is not None:
        at = f"offset {call.handed.offset}; the call's first query is at {call.cursor}"
        built = f" The mask was built at {at}."
    return tag("div", drawn, tag("p", f"{said}{built}{after}".strip(), class_="note"), class_="bars")


def _lacking(number: int, one: str, other: str) -> str:
    return f"{count(number, one)} {'has' if number == 1 else 'have'} no {other}."


def _shapes(held: Sequence[Segment], x: tuple[int, int], y: tuple[int, int]) -> Iterator[Html]:
    for segment in held[:MOST]:
        corners = ",".join(
            f"{100 * (at - x[0]) / (x[1] - x[0]):.3f}% {100 * (query - y[0]) / (y[1] - y[0]):.3f}%"
            for at, query in outline(segment, fine=len(held) <= FINE)
        )
        yield tag("i", class_=segment.kind, style=f"clip-path:polygon({corners})")


def _gutter(row: Attended) -> Iterator[tuple[str, int]]:
    """Keys without a position of this sequence: (class, query)."""
    for query, position in sorted(row.padding):
        if position < 0:
            yield look.PADDING, query
    for query, _ in sorted(row.foreign):
        yield look.FOREIGN, query


def _marks(row: Attended, held: Sequence[Segment], x: tuple[int, int], y: tuple[int, int]) -> Iterator[Html]:
    """Single keys: those in the gutter, tokens taken back, and gaps that no shape shows."""
    low = (row.span or (0, 0))[0]
    kinds = sorted({kind for kind, _ in _gutter(row)})
    aside = (low - x[0]) // max(len(kinds), 1)
    marks = [(kind, query, x[0] + kinds.index(kind) * aside) for kind, query in dict.fromkeys(_gutter(row))]
    marks += [(look.PADDING, query, at) for query, at in row.padding if at >= 0]
    covered = [segment for segment in held if segment.kind == look.MISSING]
    for query, at in row.missing:
        if not any(s.top <= query <= s.bottom and s.at(query)[0] <= at <= s.at(query)[1] for s in covered):
            marks.append((look.MISSING, query, at))
    for kind, query, at in sorted(marks):
        left, top = 100 * (at + 0.5 - x[0]) / (x[1] - x[0]), 100 * (query + 0.5 - y[0]) / (y[1] - y[0])
        yield tag("b", SYMBOLS[kind], class_=kind, style=f"left:{left:.3f}%;top:{top:.3f}%")


def _legend(row: Attended, held: Sequence[Segment]) -> Html:
    kinds = {segment.kind for segment in held}
    kinds |= {look.PADDING} if row.padding else set()
    kinds |= {look.FOREIGN} if row.foreign else set()
    kinds |= {look.MISSING} if row.missing else set()
    shown = (
        tag("li", tag("i", SYMBOLS[kind] if kind in (look.PADDING, look.FOREIGN) else "", class_=kind), name)
        for kind, name in NAMES.items()
        if kind in kinds
    )
    derived = tag("li", "(derived from shapes, not observed)") if row.origin == look.DERIVED else ""
    return tag("ul", join(shown), derived, class_="legend")


def _details(row: Attended, held: Sequence[Segment]) -> Html:
    """The same as a table, for whoever does not see the drawing."""
    rows = [
        (
            _range((row.queries[s.top].position, row.queries[s.bottom].position)),
            NAMES[s.kind],
            _range(s.start) if s.top == s.bottom else f"{_range(s.start)} … {_range(s.at(s.bottom))}",
        )
        for s in sorted(held, key=lambda s: (s.top, s.start))[:60]
    ]
    more = f", the first 60 of {len(held)} ranges" if len(held) > 60 else ""
    said = table(("queries", "keys", "positions (first query … last)"), rows, f"The drawing as ranges{more}")
    return tag("details", tag("summary", "as a table"), said)


def _range(interval: tuple[int, int]) -> str:
    return str(interval[0]) if interval[0] == interval[1] else f"{interval[0]}–{interval[1]}"
