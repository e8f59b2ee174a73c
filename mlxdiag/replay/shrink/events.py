"""Cache events: trims, adoptions, evictions and regroupings at their new lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mlxdiag.replay.shrink import formulas
from mlxdiag.replay.tape import Tape
from mlxdiag.traces.types import Attention, Entry, Row

if TYPE_CHECKING:
    from mlxdiag.replay.shrink.walk import Walk

MADE_BY = ("adopt", "load", "merge", "filter", "extend")
"""Events that a sequence may begin with."""


def write(walk: Walk, number: int, entry: Entry) -> Entry | None:
    """The event for the sequences that are left and that hold something; None where none does."""
    kept = [
        (index, seq, row)
        for index, seq, row in walk.rows(entry)
        if seq in walk.tapes or entry.kind in MADE_BY or row.seq is None
    ]
    if entry.rows and not kept:
        return None
    rows, asked = [], None
    for index, seq, row in kept:
        place: dict[str, int | None] = {
            "held": walk.tape(seq).offset,
            "real": walk.tape(seq).real,
            "cap": walk.cap,
        }
        made = _row(walk, number, index, entry.kind, row, place)
        rows.append(made)
        if entry.refused is None:
            _act(walk, entry.kind, seq, made)
        asked = place.get("asked")
    calls = [_call(walk, number, i, call, asked) for i, call in enumerate(entry.attention or [])]
    return msgspec.structs.replace(
        entry,
        rows=rows if entry.rows is not None else None,
        attention=calls if entry.attention is not None else None,
    )


def _row(walk: Walk, number: int, index: int, kind: str, row: Row, place: dict[str, int | None]) -> Row:
    changed: dict[str, Any] = {}

    def follow(name: str, names: tuple[str, ...], base: str | None) -> None:
        value = getattr(row, name)
        if value is not None:
            key = (name, number, index)
            changed[name] = walk.numbers.number(key, f"{kind} {name}", value, names, place, base=base)
            place[name] = changed[name]

    if row.asked is not None:
        place["asked"] = changed["asked"] = walk.numbers.variable(
            ("asked", number, index), row.asked, min(row.asked, 1)
        )
    follow("done", formulas.DONE, "asked")
    if kind in ("adopt", "load"):
        _adopted(walk, number, index, row, place, changed)
        follow("restored", formulas.RESTORED, "matched")
        follow("trimmed", formulas.TRIMMED, "entry-matched")
    else:
        follow("entry", formulas.SIZE, "held")
    follow("declared", formulas.SIZE, "held")
    follow("size", formulas.SIZE[::-1] if kind == "evict" else formulas.SIZE, None)
    follow("offset", formulas.SIZE, "held")
    follow("total", ("held", "real"), None)
    return msgspec.structs.replace(row, **changed)


def _adopted(
    walk: Walk, number: int, index: int, row: Row, place: dict[str, int | None], changed: dict[str, Any]
) -> None:
    """What matched is free, and so is what the entry holds beyond it."""
    matched = row.matched
    if matched is not None:
        changed["matched"] = walk.numbers.variable(("matched", number, index), matched, min(matched, 1))
        place["matched"] = changed["matched"]
    if row.entry is not None:
        beyond = row.entry - (matched or 0)
        longer = walk.numbers.variable(("beyond", number, index), beyond, min(beyond, 0))
        place["entry"] = changed["entry"] = max((place.get("matched") or 0) + longer, 0)


def _act(walk: Walk, kind: str, seq: str, row: Row) -> None:
    """Move the sequence on, as the plan of a replay does."""
    tape = walk.tape(seq)
    if kind in ("trim", "rollback"):
        tokens = row.asked if row.asked is not None else row.done or 0
        done = max(row.done, 0) if row.done is not None else tokens
        if done <= tape.offset < tokens:
            tokens = tape.offset
        tape.cut(max(tokens, 0), seq, max(tokens - done, 0))
    elif kind == "finalize":
        tape.finalize()
    elif kind == "adopt" or (kind == "load" and not tape.held):
        matched = row.matched if row.matched is not None else row.restored or 0
        restored = row.restored
        if restored is None:
            restored = matched if row.trimmed is None else (row.entry or matched) - row.trimmed
        walk.tapes[seq] = Tape(seq)
        walk.tapes[seq].adopt(max(restored, 0), matched)


def _call(walk: Walk, number: int, index: int, call: Attention, asked: int | None) -> Attention:
    """A layer family's own account of a trim."""
    place: dict[str, int | None] = {"asked": asked}
    changed: dict[str, Any] = {}
    if call.window is not None:
        changed["window"] = walk.window(call.window)
    for name in ("asked", "done"):
        value = getattr(call, name)
        if value is not None:
            key = (f"{name} {index}", number, 0)
            names = ("asked", "zero")
            changed[name] = walk.numbers.number(
                key, f"{name} {call.family}", value, names, place, base="asked"
            )
    return msgspec.structs.replace(call, **changed)
