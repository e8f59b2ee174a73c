"""Lengths over time, a panel a layer family: a drift is seen before it is read."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from mlxdiag.reports.html.markup import Html, join, tag
from mlxdiag.reports.html.page import table
from mlxdiag.reports.html.plot import plot, ticks
from mlxdiag.reports.html.story import COLUMNS, NONE, Story, Track
from mlxdiag.reports.view import count

POINTS = 1600
"""Corners of a line; beyond it the highest and the lowest of neighbours are kept."""
DOTS = 64
"""Points up to which each gets a dot."""
MISFITS = 300
ROWS = 40
SPECK = 0.3
"""Part of the run below which a sequence is drawn alone."""
NAMES = {
    "offset": "offset before the call",
    "live": "live length",
    "keys": "returned keys",
    "mask": "mask columns",
}
Point = tuple[int, int]


def panels(story: Story) -> Html:
    """The sequence that findings name first, or the longest one; the others folded."""
    tracks = [track for track in story.tracks.values() if any(_points(track))]
    if not tracks:
        return Html("")
    named = next((f.seq for f in story.report.findings if f.seq in {t.seq for t in tracks}), None)
    main = named or max(tracks, key=lambda track: len(track.places)).seq
    shown = join(_panel(story, track) for track in tracks if track.seq == main)
    others: dict[str, list[Track]] = {}
    for track in tracks:
        if track.seq != main:
            others.setdefault(track.seq, []).append(track)
    folded = join(
        tag("details", tag("summary", seq), join(_panel(story, track) for track in held))
        for seq, held in others.items()
    )
    left = len(story.hidden_tracks)
    more = tag("p", f"{count(left, 'further sequence')} not drawn.", class_="note") if left else ""
    drawn = any(len(track.places) > 1 for track in tracks)
    return join((tag("div", shown, class_="panels"), folded, more, _legend(tracks) if drawn else ""))


def _panel(story: Story, track: Track) -> Html:
    lines = dict(zip(COLUMNS, _points(track), strict=True))
    misfits = list(_misfits(track))
    label = _sentence(story, lines, misfits)
    window = f", window {track.window}" if track.window else ""
    head = tag("figcaption", tag("b", f"{track.family}{window}"), " ", tag("span", f"{track.seq}: {label}"))
    if len(track.places) < 2:
        return tag("figure", head)
    highest = max((y for points in lines.values() for _, y in points), default=1)
    x = _range(story, track)
    top = max(highest * 1.06, 1)
    shapes = join(_line(name, points) for name, points in lines.items() if points)
    if misfits:
        path = "".join(f"M{place} {length}h0" for place, length in misfits[:MISFITS])
        shapes = join((shapes, tag("path", d=path, class_="s misfit")))
    drawing = plot(
        shapes,
        x,
        (0, top),
        label=label,
        height=150,
        x_ticks=_steps(story, x),
        y_ticks=ticks(0, highest, 4),
        x_title="step",
        y_title="tokens",
        name="plot seriesplot",
    )
    return tag("figure", head, drawing, _table(story, track))


def _range(story: Story, track: Track) -> tuple[float, float]:
    """The whole run; a sequence that is a speck in it has its own steps drawn."""
    last = max(len(story.steps) - 1, 0)
    first, end = track.places[0], track.places[-1]
    if end - first + 1 >= (last + 1) * SPECK:
        first, end = 0, last
    return first - 0.5, max(end, first + 1) + 0.5


def _steps(story: Story, x: tuple[float, float]) -> list[tuple[float, str]]:
    last = len(story.steps) - 1
    found = []
    for at, said in ticks(x[0] + 0.5, x[1] - 0.5, 6):
        step = story.steps[int(at)] if at <= last else None
        found.append((at, said if step is None else str(step)))
    return found


def _sentence(story: Story, lines: dict[str, list[Point]], misfits: Sequence[Point]) -> str:
    parts = []
    for name, points in lines.items():
        if points:
            values = [value for _, value in points]
            low, high = min(values), max(values)
            parts.append(f"{NAMES[name]} {low}" + (f" to {high}" if high != low else ""))
    said = "; ".join(parts)
    if misfits:
        steps = [story.steps[place] for place, _ in misfits]
        named = ", ".join(str(step) for step in steps[:6] if step is not None)
        more = f" and {len(steps) - 6} more" if len(steps) > 6 else ""
        said += f"; mask and keys differ at {'step' if len(steps) == 1 else 'steps'} {named}{more}"
    return said + "."


def _points(track: Track) -> list[list[Point]]:
    return [_simplified(track.places, column) for column in track.columns]


def _simplified(places: array[int], column: array[int]) -> list[Point]:
    """Without the points that lie on a straight line between their neighbours; then within `POINTS`."""
    kept: list[Point] = []
    for place, value in zip(places, column, strict=True):
        if value == NONE:
            continue
        if len(kept) > 1 and _straight(kept[-2], kept[-1], (place, value)):
            kept[-1] = (place, value)
        else:
            kept.append((place, value))
    return kept if len(kept) <= POINTS else list(_extremes(kept))


def _straight(a: Point, b: Point, c: Point) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) == (c[1] - b[1]) * (b[0] - a[0])


def _extremes(points: Sequence[Point]) -> Iterator[Point]:
    size = -(-2 * len(points) // POINTS)
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        low, high = min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])
        yield from sorted({low, high})


def _misfits(track: Track) -> Iterator[Point]:
    keys, mask = track.columns[COLUMNS.index("keys")], track.columns[COLUMNS.index("mask")]
    for place, held, wide in zip(track.places, keys, mask, strict=True):
        if NONE not in (held, wide) and held != wide:
            yield place, wide


def _line(name: str, points: Sequence[Point]) -> Html:
    path = "M" + "L".join(f"{place} {value}" for place, value in points)
    line = tag("path", d=path, class_=f"s {name}")
    if len(points) > DOTS:
        return line
    return join((line, tag("path", d="".join(f"M{p} {v}h0" for p, v in points), class_=f"s {name} dots")))


def _legend(tracks: Sequence[Track]) -> Html:
    drawn = {
        name
        for track in tracks
        for name, column in zip(COLUMNS, track.columns, strict=True)
        if max(column) > NONE
    }
    entries = [tag("li", tag("i", class_=f"k {name}"), said) for name, said in NAMES.items() if name in drawn]
    if any(True for track in tracks for _ in _misfits(track)):
        entries.append(tag("li", tag("i", class_="k misfit"), "mask and keys differ"))
    return tag("ul", *entries, class_="legend")


def _table(story: Story, track: Track) -> Html:
    """Corners only: between two rows the lengths move in a straight line."""
    corners = sorted({place for points in _points(track) for place, _ in points})
    at = {place: index for index, place in enumerate(track.places)}
    rows = []
    for place in corners[:ROWS]:
        values = [column[at[place]] for column in track.columns]
        step = story.steps[place]
        rows.append(
            (str(step if step is not None else place + 1), *("–" if v == NONE else str(v) for v in values))
        )
    more = f", the first {ROWS} of {len(corners)}" if len(corners) > ROWS else ""
    said = table(("step", *NAMES.values()), rows, f"Where the lengths of {track.family} turn{more}")
    return tag("details", tag("summary", "as a table"), said)
