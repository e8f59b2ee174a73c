"""The page of a trace: the verdict, the call that broke, then the run around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding, Report, Section
from mlxdiag.reports import attended
from mlxdiag.reports import view as words
from mlxdiag.reports.html import findings, mask_map, parity, series, story, timeline
from mlxdiag.reports.html.markup import Html, join, tag
from mlxdiag.reports.html.page import page, section, table
from mlxdiag.reports.html.story import Story
from mlxdiag.traces.types import Entry, Header, Model


def render(header: Header, entries: Iterable[Entry], report: Report, beside: str = "") -> str:
    """The document. `entries` are those that `report` judged; `beside` follows the findings."""
    held = story.read(header, entries, report)
    name = report.source or "trace"
    body = tag(
        "main",
        tag("p", "mlxdiag report", class_="kicker"),
        tag("h1", name),
        findings.verdict(report),
        _facts(held),
        *_parts(held, beside),
        _judged(held),
        id="main",
    )
    return page(f"{name}: {words.verdict(report)}", body, ("maps.js", "timeline.js"))


def _parts(held: Story, beside: str) -> Iterator[str]:
    report = held.report
    first, others = findings.listing(report)
    if report.findings:
        yield section("findings", "What is wrong" if report.summary.errors else "What was found", first)
    maps = _maps(held)
    if maps is not None:
        yield section("masks", "The call", maps)
    if others:
        yield section("further", "Further findings", others)
    for one in report.sections:
        yield _section(one)
    yield beside
    if held.steps:
        yield section("steps", "Timeline", timeline.picture(held))
    lengths = series.panels(held)
    if lengths:
        zoomed = "; the timeline's zoom moves them, too" if len(held.steps) > 1 else ""
        yield section("lengths", "Lengths", lengths, note=f"Per layer family{zoomed}.")
    if held.parity:
        yield section("parity", "Parity", parity.panels(held.parity))


def _section(told: Section) -> Html:
    """What a report says beside its findings, as the text format shows it."""
    parts: list[Html] = [tag("p", line) for line in told.lines]
    if told.rows:
        rows = [tuple(words.cell(cell) for cell in row) for row in told.rows]
        parts.append(table(tuple(told.header), rows, told.title))
    return section(f"section-{told.name}", told.title, *parts)


def _maps(held: Story) -> Html | None:
    """Every drawn call; the script shows the chosen one, and without it all are there."""
    drawn = [
        (place, call, figure) for place, call in held.calls if (figure := mask_map.figure(call)) is not None
    ]
    if not drawn:
        return None
    chosen = _chosen(held, [(place, call) for place, call, _ in drawn])
    options = join(
        tag("option", _option(call), value=f"call-{i}", selected=i == chosen)
        for i, (_, call, _) in enumerate(drawn)
    )
    pick = tag(
        "p",
        tag("label", "call ", tag("select", options, id="call")),
        tag("span", f"{held.left_out} further calls are not drawn." if held.left_out else "", class_="note"),
        class_="pick",
    )
    figures = join(
        tag("div", tag("h3", mask_map.title(call)), figure, class_="call", id=f"call-{i}", data_place=place)
        for i, (place, call, figure) in enumerate(drawn)
    )
    return join((pick, figures))


def _option(call: Call) -> str:
    rows = call.entry.rows or []
    name = rows[0].seq if len(rows) == 1 else f"{len(rows)} rows" if rows else None
    return mask_map.title(call) + (f" · {name}" if name else "")


def _chosen(held: Story, drawn: list[tuple[int, Call]]) -> int:
    """The call of the first finding that a drawing bears out; else of the first that names one; else the
    longest one."""
    named = [i for finding in findings.ordered(held.report) for i in _calls_of(held, finding, drawn)]
    for i in named:
        if any(row.wrong for row in attended.rows_of(drawn[i][1])):
            return i
    return named[0] if named else max(range(len(drawn)), key=lambda i: _reach(drawn[i][1]))


def _calls_of(held: Story, finding: Finding, drawn: list[tuple[int, Call]]) -> list[int]:
    """Those of the finding's step, its own families first."""
    place = held.place_of(finding)
    families = set((finding.family or "").split(", "))
    return sorted(
        (i for i, (at, _) in enumerate(drawn) if at == place),
        key=lambda i: drawn[i][1].family not in families,
    )


def _reach(call: Call) -> tuple[bool, int]:
    """Calls of several queries first, then by how far the keys reach beyond the window."""
    return (call.q or 0) > 1, (call.k or 0) - (call.window or 1 << 30)


def _facts(held: Story) -> Html:
    header = held.header
    source, environment = dict(header.source or {}), dict(header.environment or {})
    pairs: list[tuple[str, str]] = []
    program = " ".join(str(source[key]) for key in ("program", "version") if source.get(key))
    pairs.append(("program", program))
    pairs.append(("model", ", ".join(dict.fromkeys(filter(None, map(_model, held.models))))))
    libraries = environment.pop("libraries", None)
    if isinstance(libraries, dict):
        pairs.append(("libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())))
    pairs.append(("machine", ", ".join(words.shorten(value) for value in environment.values())))
    pairs += [
        (key, words.shorten(source[key])) for key in sorted(source) if key not in ("program", "version")
    ]
    pairs.append(("level", header.level or ""))
    pairs.append(("planted", header.planted or ""))
    pairs.append(("note", header.note or ""))
    return tag(
        "dl",
        join(tag("div", tag("dt", key), tag("dd", value)) for key, value in pairs if value),
        class_="facts",
    )


def _model(model: Entry | Model) -> str:
    return " ".join(
        part for part in (model.name, f"({model.architecture})" if model.architecture else "") if part
    )


def _judged(held: Story) -> Html:
    report = held.report
    parts = [tag("p", words.coverage(report.summary) + ".")]
    if report.summary.truncated:
        parts.append(tag("p", words.CUT_OFF))
    parts += [tag("p", f"Note: {note}") for note in report.summary.notes]
    for model in held.models[:4]:
        layers = model.layers or {}
        rows = [(name, *_layer(family)) for name, family in layers.items()]
        if rows:
            title = f"Layers of {_model(model) or 'the model'}, as its config says"
            parts.append(table(("family", "attention", "cache", "window", "layers"), rows, title))
    scheduler = held.header.scheduler
    told = {name: getattr(scheduler, name) for name in scheduler.__struct_fields__} if scheduler else {}
    rows = [
        (name.replace("_", " "), words.shorten(value)) for name, value in told.items() if value is not None
    ]
    if rows:
        parts.append(table(("scheduler", "setting"), rows, "What the scheduler was set to"))
    return section("judged", "What was judged", *parts)


def _layer(family: Any) -> tuple[str, ...]:
    values = (family.attention, family.cache, family.window, family.count)
    return tuple("–" if value is None else str(value) for value in values)
