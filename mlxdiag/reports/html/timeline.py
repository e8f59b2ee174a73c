"""The timeline: a lane a sequence, a mark a step, findings above; `timeline.js` draws it from runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from mlxdiag.reports import view as words
from mlxdiag.reports.html.findings import SIGNS, ordered
from mlxdiag.reports.html.markup import Html, data, join, tag
from mlxdiag.reports.html.page import table
from mlxdiag.reports.html.story import Lane, Story
from mlxdiag.reports.view import count
from mlxdiag.traces.types import EVENT_PHASES

DRAWN = {"prefill": 0, "chunk": 1, "decode": 2, "verify": 3}
EVENT = 4
LEGEND = (
    ("prefill", "prefill"),
    ("chunk", "further chunk"),
    ("decode", "decode"),
    ("verify", "verify"),
    ("event", "trim, rollback, adopt and other cache events"),
)
RUNS = 20_000
"""Of all lanes together, and at most `LANE_RUNS` of one; beyond it neighbouring runs are joined, at the cost
of what lies between them."""
LANE_RUNS = 6000
PACKED = 16
"""Sequences above which those that do not overlap in time share a row."""
ROWS = 40
"""Lines of the table under the picture."""
MARKS = 500

Run = list[int]
"""Place of the first step, distance to the next, how many, and the kind of mark."""


def picture(story: Story) -> Html:
    """The whole section body."""
    lanes = list(story.lanes.values())
    label = summary(story)
    if len(story.steps) < 2:
        return tag("p", label)
    canvas = tag(
        "div",
        tag("div", id="lanes", role="img", aria_label=label),
        id="timeline",
        tabindex="0",
        role="group",
        aria_label="Timeline. Arrow keys move the cursor, plus and minus zoom, n and p go between findings.",
    )
    buttons = (
        ("zoom-in", "+", "zoom in"),
        ("zoom-out", "−", "zoom out"),
        ("zoom-all", "all", "show all steps"),
        ("back", "◂", "one step back"),
        ("on", "▸", "one step on"),
        ("previous", "‹ finding", "previous finding"),
        ("next", "finding ›", "next finding"),
    )
    tools = tag(
        "div",
        *(
            tag("button", sign, type="button", id=f"tl-{name}", aria_label=said)
            for name, sign, said in buttons
        ),
        tag("output", "", id="tl-readout"),
        class_="tools",
        role="toolbar",
        aria_label="timeline",
    )
    legend = join(tag("li", tag("i", class_=f"ph {name}"), said) for name, said in LEGEND)
    return join(
        (
            tag("p", label, class_="note"),
            tools,
            canvas,
            tag("ul", legend, class_="legend"),
            _table(story),
            data("timeline-data", _data(story, lanes)),
            tag("noscript", "The timeline needs its script; the table holds the same."),
        )
    )


def summary(story: Story) -> str:
    """The picture in a sentence."""
    counts: dict[str, int] = {}
    for phase in story.phases:
        counts[phase] = counts.get(phase, 0) + 1
    said = ", ".join(f"{number} {phase}" for phase, number in counts.items())
    lanes = count(len(story.lanes) + len(story.hidden_lanes), "sequence")
    hidden = f" ({len(story.hidden_lanes)} of them not drawn)" if story.hidden_lanes else ""
    marked = [finding for finding in ordered(story.report) if story.place_of(finding) is not None]
    found = (
        "; findings at " + ", ".join(dict.fromkeys(f"step {f.step}" for f in marked[:8])) if marked else ""
    )
    notes = f", and {count(story.notes, 'note')}" if story.notes else ""
    return f"{count(len(story.steps), 'step')} of {lanes}{hidden}: {said or 'none'}{notes}{found}."


def runs(lane: Lane) -> list[Run]:
    """Marks of one kind at equal distances as one run each; kinds may interleave."""
    held: dict[int, Run] = {}
    done: list[Run] = []
    for place, phase in zip(lane.places, lane.kinds, strict=True):
        kind = DRAWN.get(phase, EVENT)
        run = held.get(kind)
        if run is not None and (run[2] == 1 or place == run[0] + run[1] * run[2]):
            run[1] = place - run[0] if run[2] == 1 else run[1]
            run[2] += 1
            continue
        if run is not None:
            done.append(run)
        held[kind] = [place, 1, 1, kind]
    return sorted([*done, *held.values()])


def packed(lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Rows of the picture: one a sequence, or as many as are at work at a time."""
    if len(lanes) <= PACKED:
        return [[lane] for lane in lanes]
    rows: list[list[Lane]] = []
    ends: list[tuple[int, int]] = []
    for lane in sorted(lanes, key=lambda lane: lane.places[0]):
        if ends and ends[0][0] < lane.places[0]:
            _, row = heappop(ends)
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(lane)
        heappush(ends, (lane.places[-1], row))
    return rows


def _bounded(found: list[Run], limit: int) -> list[Run]:
    while len(found) > limit:
        joined: list[Run] = []
        last: dict[int, Run] = {}
        for run in found:
            before = last.pop(run[3], None)
            if before is None:
                last[run[3]] = run
                continue
            end = max(before[0] + before[1] * (before[2] - 1), run[0] + run[1] * (run[2] - 1))
            number = before[2] + run[2]
            joined.append([before[0], max(1, (end - before[0]) // max(number - 1, 1)), number, run[3]])
        shorter = sorted([*joined, *last.values()])
        if len(shorter) == len(found):
            break
        found = shorter
    return found


def steps(numbers: Sequence[int | None]) -> list[list[int]]:
    """Step numbers as runs of consecutive ones: place, count, first number. Unnumbered steps are left out."""
    found: list[list[int]] = []
    for place, step in enumerate(numbers):
        if step is None:
            continue
        last = found[-1] if found else None
        if last and place == last[0] + last[1] and step == last[2] + last[1]:
            last[1] += 1
        else:
            found.append([place, 1, step])
    return found


def _data(story: Story, lanes: Sequence[Lane]) -> dict[str, Any]:
    limit = min(LANE_RUNS, max(8, RUNS // max(len(lanes), 1)))
    marks: list[list[Any]] = []
    for number, finding in enumerate(ordered(story.report), 1):
        place = story.place_of(finding)
        if place is not None and len(marks) < MARKS:
            said = f"{finding.code} {finding.name}, {words.place(finding)}"
            marks.append([place, finding.severity, SIGNS.get(finding.severity, "?"), said, number])
    return {
        "n": len(story.steps),
        "steps": steps(story.steps),
        "rows": [[[lane.name, _bounded(runs(lane), limit)] for lane in row] for row in packed(lanes)],
        "marks": marks,
        "calls": sorted({place for place, _ in story.calls}),
        "events": [[place, phase] for place, phase in enumerate(story.phases) if phase in EVENT_PHASES][
            :2000
        ],
    }


def _table(story: Story) -> Html:
    rows = list(_rows(story))
    more = f", the first {ROWS} of {len(rows)} stretches" if len(rows) > ROWS else ""
    said = table(("steps", "phase", "sequences"), rows[:ROWS], f"The timeline in words{more}")
    return tag("details", tag("summary", "as a table"), said)


def _rows(story: Story) -> Iterator[tuple[Html | str, ...]]:
    """Neighbouring steps of one phase and the same sequences, together."""
    at: list[list[str]] = [[] for _ in story.steps]
    for lane in story.lanes.values():
        for place in lane.places:
            at[place].append(lane.name)
    start = 0
    for place in range(1, len(at) + 1):
        if place < len(at) and (at[place], story.phases[place]) == (at[start], story.phases[start]):
            continue
        first, last = story.steps[start], story.steps[place - 1]
        shown = str(first) if first == last else f"{first}–{last}"
        if first is None or last is None:
            shown = f"entry {start + 1}" if place - start == 1 else f"entries {start + 1}–{place}"
        names = ", ".join(at[start][:8]) + (f" and {len(at[start]) - 8} more" if len(at[start]) > 8 else "")
        yield shown, story.phases[start], names
        start = place
