"""What every renderer of an audit is given, and what they all say in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mlxdiag.audit.cell import LIBRARY, Audit, Cell, Fault
from mlxdiag.audit.engine.death import UNFINISHED
from mlxdiag.audit.faults.against import Comparison
from mlxdiag.audit.faults.baseline import Difference
from mlxdiag.inspect.rules import RULES
from mlxdiag.reports.view import count

RULE_NAMES = {rule.code: rule.name for rule in RULES}
RESULTS = ("pass", "fail", "crash", "unsupported", "skipped")
STATES = ("new", "changed", "accepted")
LEGEND = (
    (".", "right"),
    ("g v p", "wrong by geometry, visibility, parity"),
    ("f", "wrong"),
    ("X", "crash"),
    ("e", "looks wrong, excused"),
    ("u", "refused by the library"),
    ("-", "skipped"),
)
FIRST = ("mlx-lm", "transformers")
"""Audited libraries: named before what they compute with."""
MOST_NAMES = 12
"""Families named in a sentence before the rest is counted."""
MOST_SEEN = 160
"""Characters of an exception; where the library explains at length, the beginning says what it is."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How to show what. The defaults are right for a file."""

    audit: Audit
    """Its faults are those that --select and --ignore leave."""
    hidden: int = 0
    """Faults that --select and --ignore took away."""
    difference: Difference | None = None
    """From the baseline, where one was given."""
    comparison: Comparison | None = None
    """With another copy of the library, where one was given."""
    unfold: bool = False
    """Show the rows of families without a wrong cell, and accepted faults in full, too."""
    repros: str = ""
    """The folder that the standalone scripts were written to."""
    colour: bool = False
    width: int | None = None
    """Columns to wrap text at; None never wraps."""


def symbol(cell: Cell | None) -> str:
    """At most three characters: the letters of the oracles that spoke against it, or a sign of the legend."""
    if cell is None:
        return ""
    if cell.result == "fail":
        return "".join(name[0] for name in cell.oracles) or "f"
    if cell.result == "pass":
        return "e" if cell.excuse else "."
    return {"crash": "X", "unsupported": "u"}.get(cell.result, "-")


def families(audit: Audit) -> dict[str, list[Cell]]:
    """Rows of the table."""
    rows: dict[str, list[Cell]] = {}
    for cell in audit.cells:
        rows.setdefault(cell.family, []).append(cell)
    return rows


def columns(audit: Audit) -> list[str]:
    """Scenarios of the table, in its order."""
    return list(dict.fromkeys(cell.scenario for cell in audit.cells))


def skipped_families(audit: Audit) -> dict[str, str]:
    """Families of which no cell could be run, with the reason."""
    return {
        name: cells[0].reason
        for name, cells in families(audit).items()
        if all(cell.result == "skipped" for cell in cells) and not any(map(unfinished, cells))
    }


def unfinished(cell: Cell) -> bool:
    """Left without a verdict by a fault of our own."""
    return cell.result == "skipped" and cell.reason.startswith(UNFINISHED)


def coverage(audit: Audit) -> str:
    """Which families were reached; the numbers add up to those that are known."""
    rows, skipped = families(audit), skipped_families(audit)
    rest = audit.families - len(rows)
    where = f"outside shard {audit.shard[0]}/{audit.shard[1]}" if audit.shard else "not asked for"
    parts = [f"{len(rows) - len(skipped)} reached", f"{len(skipped)} skipped"]
    if rest:
        parts.append(f"{rest} {where}")
    return f"{count(audit.families, 'family', 'families')} known: {', '.join(parts)}"


def tally(audit: Audit) -> str:
    """`270 cells: 200 pass (3 of them excused), 12 fail, 1 crash, 20 unsupported, 37 skipped`."""
    counts = audit.tally()
    excused = sum(bool(cell.excuse) for cell in audit.cells)
    more = {"pass": f" ({excused} of them excused)" if excused else ""}
    shown = (f"{counts[result]} {result}{more.get(result, '')}" for result in RESULTS if result in counts)
    return f"{count(len(audit.cells), 'cell')}: {', '.join(shown) or 'none'}"


def nothing_judged(audit: Audit) -> bool:
    """No oracle and no crash said anything about any cell."""
    return all(cell.result in ("skipped", "unsupported") for cell in audit.cells)


def verdict(shown: Shown) -> str:
    """One sentence, never "clean" for what was not judged."""
    audit = shown.audit
    if audit.faults:
        states = [state(fault, shown) for fault in audit.faults]
        counts = {name: states.count(name) for name in STATES} | {"hidden": shown.hidden}
        more = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        return count(len(audit.faults), "fault") + (f" ({more})" if more else "")
    if nothing_judged(audit):
        return "nothing could be judged, which is not the same as clean"
    if shown.hidden:
        return f"nothing to show: {count(shown.hidden, 'fault')} hidden by --select or --ignore"
    return "no fault found"


def subject(audit: Audit) -> str:
    """`mlx-lm 0.32.2, mlx 0.32.4 on cpu, seed 0`."""
    named = sorted(audit.libraries.items(), key=lambda item: (item[0] not in FIRST, item[0]))
    versions = ", ".join(f"{name} {version}" for name, version in named)
    split = f", shard {audit.shard[0]}/{audit.shard[1]}" if audit.shard else ""
    return f"{versions} on {audit.device}, seed {audit.seed}{split}"


def rule(code: str) -> str:
    """`MD108 window-not-enforced`."""
    return f"{code} {RULE_NAMES[code]}" if code in RULE_NAMES else code


def state(fault: Fault, shown: Shown) -> str:
    """Where a baseline was given: `new`, `accepted`, or `changed` for one that it accepts on other cells."""
    found = shown.difference
    if found is None:
        return ""
    if fault.id in found.new_cells or fault.id in found.fixed_cells:
        return "changed"
    return "accepted" if fault.id in found.accepted else "new"


def parted(shown: Shown) -> tuple[list[Fault], list[Fault]]:
    """Faults to tell in full, new ones first, and those that the baseline accepts as they are."""
    told = [fault for fault in shown.audit.faults if state(fault, shown) != "accepted"]
    told.sort(key=lambda fault: state(fault, shown) == "changed")
    return told, [fault for fault in shown.audit.faults if state(fault, shown) == "accepted"]


def baseline_lines(shown: Shown) -> list[str]:
    """What differs from the baseline, and how much it accepts; empty where none was given."""
    found = shown.difference
    if found is None:
        return []
    clean = [f"as accepted ({count(len(found.accepted), 'fault')})"] if found.clean else []
    return [*clean, *found.lines()]


def accepted_line(fault: Fault) -> str:
    """One line for a fault that the baseline accepts."""
    where = f"  {fault.where}" if fault.where else ""
    return f"{fault.id}  {rule(fault.code)}  {count(len(fault.cells), 'cell')}{where}"


def few(names: Sequence[str]) -> str:
    """Names in a sentence, the rest counted."""
    if len(names) <= MOST_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"


def details(fault: Fault, shown: Shown) -> Iterator[tuple[str, str]]:
    """What is known of a fault, as labels and values, the next command last."""
    if fault.known:
        yield "cause", fault.cause
    if seen := _seen(fault, shown.audit):
        yield "seen", seen
    if not fault.known:
        yield "note", "the cause is not read up yet: cells with the same rule at the same line stand together"
    if changes := "; ".join(shown.difference.changes(fault.id) if shown.difference is not None else ()):
        yield "baseline", changes
    if fault.where:
        yield "where", fault.where
    yield "families", few(fault.families)
    yield "scenarios", few(sorted({scenario for _, scenario in fault.cells}))
    if fault.schedule:
        yield "smallest", fault.schedule
    if numbers := ", ".join(_numbers(fault)):
        yield "numbers", numbers
    if fault.oracles:
        yield "rests on", ", ".join(fault.oracles)
    if fault.repro:
        yield "repro", _repro(fault, shown)
    yield "next", following(fault, shown)


def _seen(fault: Fault, audit: Audit) -> str:
    """What the library said where it crashed, or what was seen of a fault whose cause nobody has read up."""
    thrown = exception(fault, audit)
    if fault.known or not thrown:
        return thrown or ("" if fault.known else fault.cause)
    # The headline of a fault that crashes in some cells and is wrong in others may be either.
    crashed = any(cell.reason == fault.cause for cell in crashes(fault, audit))
    return thrown if crashed else f"{fault.cause}; elsewhere {thrown}"


def crashes(fault: Fault, audit: Audit) -> list[Cell]:
    """The cells in which a fault crashes, the shortest schedule first."""
    own = set(fault.cells)
    held = [cell for cell in audit.cells if cell.result == "crash" and (cell.family, cell.scenario) in own]
    return sorted(held, key=lambda cell: (len(cell.trace), cell.family, cell.scenario))


def exception(fault: Fault, audit: Audit) -> str:
    """`step 3: IndexError: list index out of range`, cut where it goes on; empty for a fault without a crash.

    Of several, that of the shortest schedule.
    """
    held = crashes(fault, audit)
    if not held:
        return ""
    said = held[0].reason.partition("\n")[0]
    said = said if len(said) <= MOST_SEEN else said[: MOST_SEEN - 3].rstrip() + "..."
    others = len(fault.cells) - len(held)
    return f"{said} (in {len(held)} of {len(fault.cells)} cells)" if others else said


def following(fault: Fault, shown: Shown) -> str:
    """The next command to run."""
    if fault.repro:
        return f"python {_repro(fault, shown)}"
    family, scenario = fault.cells[0]
    library = "" if fault.library == LIBRARY else f" --library {fault.library}"
    return f"mlxdiag audit-models {family}{library} --scenario {scenario} --repros repros"


def _repro(fault: Fault, shown: Shown) -> str:
    return f"{shown.repros}/{fault.repro}" if shown.repros else fault.repro


def _numbers(fault: Fault) -> Iterator[str]:
    if fault.positions:
        yield f"wrong positions {', '.join(map(str, fault.positions))}"
    if fault.first is not None:
        yield f"first wrong position {fault.first}"
    if fault.max_abs is None or fault.tolerance is None or fault.first is None:
        return
    limit = f"(tolerance {fault.tolerance:.2g})"
    if fault.max_abs > fault.tolerance:
        yield f"largest logit difference {fault.max_abs:.3g} {limit}"
    else:
        yield f"logits agree with the library's own single pass {limit}"


def excused(audit: Audit) -> dict[str, list[Cell]]:
    """Cells that only look wrong, by the name of the excuse."""
    held: dict[str, list[Cell]] = {}
    for cell in audit.cells:
        if cell.excuse:
            held.setdefault(cell.excuse, []).append(cell)
    return dict(sorted(held.items()))
