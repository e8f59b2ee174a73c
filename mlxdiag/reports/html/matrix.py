"""The matrix of an audit: a row a family, a column a scenario, every cell opening its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlxdiag.audit.cell import Audit, Cell
from mlxdiag.reports.audit import grid
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.html.markup import Html, data, join, tag

SHOWN = ("codes", "oracles", "judged", "reason", "excuse", "where", "evidence")
RESULTS = ("fail", "crash", "pass", "excused", "unsupported", "skipped")


def picture(audit: Audit) -> Html:
    """Filters, the table, its legend and the evidence behind it."""
    names = words.columns(audit)
    rows = words.families(audit)
    wrong = sum(any(cell.wrong for cell in cells) for cells in rows.values())
    return join(
        (
            tag(
                "p",
                f"{wrong} of {len(rows)} families have a wrong cell. A cell opens its evidence.",
                class_="note",
            ),
            _filters(),
            tag(
                "div",
                _table(rows, names),
                class_="scroll wide",
                tabindex="0",
                role="region",
                aria_label="matrix",
            ),
            _legend(),
            _evidence(),
            data("matrix-data", _data(rows, names)),
        )
    )


def outcome(cell: Cell) -> str:
    """One of `RESULTS`."""
    return "excused" if cell.result == "pass" and cell.excuse else cell.result


def _filters() -> Html:
    options = join(
        tag("option", name, value=value) for value, name in (("", "any"), *((r, r) for r in RESULTS))
    )
    return tag(
        "div",
        tag("label", "family ", tag("input", type="search", id="m-family", autocomplete="off")),
        tag("label", "scenario ", tag("input", type="search", id="m-scenario", autocomplete="off")),
        tag("label", "result ", tag("select", options, id="m-result")),
        tag("label", tag("input", type="checkbox", id="m-wrong"), " only rows with a wrong cell"),
        tag("output", "", id="m-count"),
        class_="filters",
        role="search",
        aria_label="matrix",
    )


def _table(rows: dict[str, list[Cell]], names: list[str]) -> Html:
    head = join(
        tag("th", tag("span", name, title=grid.TITLES.get(name, "")), scope="col", data_scenario=name)
        for name in names
    )
    body = join(_row(family, cells, names) for family, cells in rows.items())
    return tag(
        "table",
        tag("caption", "Families and scenarios"),
        tag("thead", tag("tr", tag("th", "family", scope="col"), head)),
        tag("tbody", body),
        class_="matrix",
        id="m-table",
    )


def _row(family: str, cells: list[Cell], names: list[str]) -> Html:
    by = {cell.scenario: cell for cell in cells}
    shown = join(_cell(by.get(name), column) for column, name in enumerate(names))
    wrong = any(cell.wrong for cell in cells)
    return tag("tr", tag("th", family, scope="row"), shown, data_wrong="1" if wrong else None)


def _cell(cell: Cell | None, column: int) -> Html:
    if cell is None:
        return tag("td")
    result = outcome(cell)
    spoke = f" ({', '.join(cell.oracles)})" if cell.oracles and cell.wrong else ""
    label = f"{cell.family}, {cell.scenario}: {result}{spoke}"
    button = tag("button", words.symbol(cell), type="button", aria_label=label, tabindex="-1", data_c=column)
    return tag("td", button, class_=f"r-{result}")


def _legend() -> Html:
    kinds = {
        ".": "pass",
        "g v p": "fail",
        "f": "fail",
        "X": "crash",
        "e": "excused",
        "u": "unsupported",
        "-": "skipped",
    }
    signs = (
        tag("li", tag("i", sign, class_=f"sample r-{kinds.get(sign, 'pass')}"), meaning)
        for sign, meaning in words.LEGEND
    )
    return tag("ul", join(signs), class_="legend")


def _evidence() -> Html:
    return tag(
        "dialog",
        tag("h3", "", id="e-title"),
        tag("p", "", id="e-result"),
        tag("dl", "", id="e-facts", class_="told"),
        tag("h4", "The schedule as a trace", id="e-head"),
        tag("pre", "", id="e-trace", tabindex="0", aria_labelledby="e-head"),
        tag("button", "close", type="button", id="e-close", autofocus=True),
        id="evidence",
        aria_labelledby="e-title",
    )


def _data(rows: dict[str, list[Cell]], names: list[str]) -> dict[str, Any]:
    """By row: the column and what is known of its cell. Long texts stand once, and are pointed at."""
    texts: dict[str, int] = {}

    def told(cell: Cell) -> Iterator[tuple[str, Any]]:
        for name in SHOWN:
            value = getattr(cell, name)
            if value:
                yield name, texts.setdefault(value, len(texts)) if name == "reason" else _finite(value)
        if cell.trace:
            yield "trace", texts.setdefault(cell.trace, len(texts))

    place = {name: column for column, name in enumerate(names)}
    held = [
        [family, {str(place[cell.scenario]): {"result": outcome(cell), **dict(told(cell))} for cell in cells}]
        for family, cells in rows.items()
    ]
    titles = [grid.TITLES.get(name, "") for name in names]
    return {"rows": held, "scenarios": names, "titles": titles, "texts": list(texts)}


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are told as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
