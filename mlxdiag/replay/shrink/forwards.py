"""Forwards: rows, attention calls, masks, errors and outputs at their new lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mlxdiag.replay.shrink import calls, formulas
from mlxdiag.traces.types import Attention, Entry, Output, Row

if TYPE_CHECKING:
    from mlxdiag.replay.shrink.walk import Walk


class Fed(msgspec.Struct):
    """One row of a forward at its new lengths."""

    index: int
    """Batch index in the original."""
    seq: str
    row: Row
    tokens: int
    left: int
    right: int
    place: dict[str, int | None]


def write(walk: Walk, number: int, entry: Entry) -> Entry | None:
    """The forward with the rows that stay; None where none does."""
    kept = walk.rows(entry)
    if not kept:
        return None
    count = walk.known("rows", number, 0, lambda: len(kept))
    if walk.known("whole", number, 0, lambda: walk.is_whole(entry, kept)):
        for _, seq, _ in kept:
            walk.tape(seq).begin_again()
    for index, seq, row in kept:
        _catch_up(walk, number, index, seq, row)
    fresh = not any(walk.tape(seq).held for _, seq, _ in kept)
    fed = _lengths(walk, number, entry, kept)
    rows = [_row(walk, number, one) for one in fed]
    same = walk.known("same", number, 0, lambda: _snapshot(walk, fed)) == _snapshot(walk, fed)
    attention, mask, error = calls.write(walk, number, entry, fed, count, same)
    output = _outputs(walk, number, entry, fed, count, same)
    if walk.known("misfit", number, 0, lambda: _misfit(entry.attention)) and not _misfit(attention):
        # What a misfit did is not what the fitting mask in its place would have done.
        walk.healed |= error is not None
        error, output = None, _without_numbers(output)
    for one in fed:
        walk.feed(one.seq, one.tokens, one.left, one.right)
    return msgspec.structs.replace(
        entry,
        phase=_phase(walk, number, entry, fresh),
        rows=rows if entry.rows is not None else None,
        attention=attention,
        mask=mask,
        error=error,
        output=output,
    )


def _misfit(attention: list[Attention] | None) -> bool:
    return any(isinstance(a.mask, tuple) and a.k is not None and a.mask[-1] != a.k for a in attention or [])


def _without_numbers(output: list[Output] | None) -> list[Output] | None:
    return [msgspec.structs.replace(one, nan=None, inf=None) for one in output or []] or output


def _snapshot(walk: Walk, fed: list[Fed]) -> tuple[Any, ...]:
    """All that the evidence of masks that were read, and of logits that were compared, depends on."""
    windows = tuple(sorted({w for w in map(walk.window, _windows(walk)) if w is not None}))
    tapes = {f.seq: walk.tape(f.seq) for f in fed}
    rows = tuple(
        (f.seq, f.left, f.tokens, f.right, tapes[f.seq].offset, tapes[f.seq].real, tapes[f.seq].generation)
        for f in fed
    )
    return rows, windows


def _windows(walk: Walk) -> list[int]:
    return [family.window for family in walk.families.values() if family.window is not None]


def _catch_up(walk: Walk, number: int, index: int, seq: str, row: Row) -> None:
    """Tokens that the trace does not show before this call."""
    if row.offset is None:
        return
    tape, offset = walk.tape(seq), row.offset

    def missing() -> int:
        known = offset in (tape.offset, tape.real) or (offset <= 0 and not tape.held)
        return 0 if known else max(offset - tape.offset, 0)

    gap = walk.known("gap", number, index, missing)
    if gap:
        walk.feed(seq, walk.numbers.variable(("gap", number, index), gap, 0))


def _lengths(walk: Walk, number: int, entry: Entry, kept: list[tuple[int, str, Row]]) -> list[Fed]:
    """Tokens and padding of each row: rows of one batch stay aligned, on the side that they were."""
    style = walk.known("style", number, 0, lambda: _style(entry, kept))
    side, extra = style["side"], style["extra"]
    if extra:
        extra = walk.numbers.variable(("padding", number, 0), extra, 0)
    tokens = {
        index: walk.numbers.variable(("tokens", number, index), old, min(old, 1))
        for index, old in style["tokens"].items()
    }
    packed = side == "packed"
    count = sum if packed else max
    width = count(tokens[index] for index, _, _ in kept) + extra
    fed = []
    for index, seq, row in kept:
        room = 0 if packed else width - tokens[index]
        left, right = (room, 0) if side == "left" else (0, room)
        tape = walk.tape(seq)
        place: dict[str, int | None] = {
            "q": width,
            "width": width,
            "tokens": tokens[index],
            "left": left or walk.left(seq),
            "held": tape.offset,
            "real": tape.real,
            "cur": tape.offset,
            "cap": walk.cap,
            "rows": len(kept),
        }
        fed.append(Fed(index, seq, row, tokens[index], left, right, place))
    longest = max(one.place["held"] or 0 for one in fed)
    for one in fed:
        one.place["cur"] = longest
    return fed


def _style(entry: Entry, kept: list[tuple[int, str, Row]]) -> dict[str, Any]:
    """How the rows were laid out: tokens by index, the side that padding is on, padding of the widest.

    The side is "packed" where rows lie one behind the other and nothing is padded.
    """
    measured = next((a.q for a in entry.attention or [] if a.q is not None), None)
    tokens = {index: _tokens(row, measured) for index, _, row in kept}
    padded = [row.padded or (tokens[index] + (row.right_padding or 0)) for index, _, row in kept]
    beside = [tokens[index] + (row.left_padding or 0) for index, _, row in kept if (row.offset or 0) <= 0]
    if len(kept) > 1 and measured == sum(tokens.values()) and _is_paged(entry):
        return {"tokens": tokens, "side": "packed", "extra": 0}
    width = measured if measured is not None else max([*padded, *(beside if len(kept) > 1 else [])])
    right = any(row.padded is not None or row.right_padding for _, _, row in kept)
    left = not right and (any((row.left_padding or 0) > 0 for _, _, row in kept) or entry.attention is None)
    return {
        "tokens": tokens,
        "side": "left" if left else "right",
        "extra": max(width - max(tokens.values()), 0),
    }


def _is_paged(entry: Entry) -> bool:
    """Whether the rows of a forward may lie one behind the other on one axis of queries."""
    return any(call.cache == "paged" for call in entry.attention or [])


def _tokens(row: Row, measured: int | None) -> int:
    return next((n for n in (row.tokens, row.padded, measured) if n is not None), 1)


def _row(walk: Walk, number: int, fed: Fed) -> Row:
    row, place = fed.row, fed.place
    changed: dict[str, Any] = {}
    if row.tokens is not None:
        changed["tokens"] = fed.tokens
    for name, names, base in (
        ("offset", formulas.OFFSET[:2], "held"),
        ("scheduled", ("tokens", "one", "zero"), None),
    ):
        value = getattr(row, name)
        if value is not None:
            changed[name] = walk.numbers.number(
                (name, number, fed.index), f"row {name}", value, names, place, base=base
            )
    if row.padded is not None:
        changed["padded"] = fed.tokens + fed.right
    if row.right_padding is not None or (fed.right and row.padded is None):
        changed["right_padding"] = fed.right
    aligned = walk.known("aligned", number, fed.index, lambda: fed.left > 0)
    if fed.left or aligned:
        changed["left_padding"] = fed.left or None
    elif row.left_padding is not None:
        changed["left_padding"] = walk.numbers.number(
            ("left", number, fed.index), "row left", row.left_padding, ("left",), place
        )
    if row.total is not None:
        changed["total"] = walk.total(number, fed.index, fed.seq, row.total)
    for name in ("drafted", "accepted"):
        value = getattr(row, name)
        if value is not None:
            most = fed.tokens - 1 if name == "drafted" else min(fed.tokens - 1, row.accepted or 0)
            least = walk.known(name, number, fed.index, lambda: value <= fed.tokens - 1)  # noqa: B023
            changed[name] = min(value, most) if least else value
    return msgspec.structs.replace(row, **changed)


def _phase(walk: Walk, number: int, entry: Entry, fresh: bool) -> str | None:
    """A chunk that has become the first is a prefill, and the other way round."""
    was = walk.known("fresh", number, 0, lambda: fresh)
    if was == fresh or entry.phase not in ("prefill", "chunk"):
        return entry.phase
    return "prefill" if fresh else "chunk"


def _outputs(
    walk: Walk, number: int, entry: Entry, fed: list[Fed], count: int, same: bool
) -> list[Output] | None:
    if entry.output is None:
        return None
    by_row = len(entry.output) == count
    made = []
    for one in fed if by_row else fed[:1]:
        for output in [entry.output[one.index]] if by_row else entry.output:
            row = output.row
            if row is not None:
                row = walk.numbers.number(
                    ("sampled", number, one.index), "sampled", row, formulas.SAMPLED, one.place, base="last"
                )
            counts = {
                name: min(value, max(one.tokens, 1))
                for name in ("nan", "inf")
                if (value := getattr(output, name)) is not None
            }
            parity = output.parity if same else None
            made.append(msgspec.structs.replace(output, row=row, parity=parity, **counts))
    return made
