"""Attention calls of a forward, the mask that was handed to it, and the error that it ended with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mlxdiag.replay import masks
from mlxdiag.replay.shrink import formulas
from mlxdiag.traces.types import Attention, Entry, Fault, Mask

if TYPE_CHECKING:
    from mlxdiag.replay.shrink.forwards import Fed
    from mlxdiag.replay.shrink.walk import Walk

Places = dict[str, int | None]

READ = ("first", "last", "visible", "missing", "future", "padding", "foreign", "totals")
"""What masks that were read showed: true of those lengths only."""
_SHAPE = re.compile(r"\(\d+(?:,\s?\d+)*,?\)")


def write(
    walk: Walk, number: int, entry: Entry, fed: list[Fed], count: int, same: bool
) -> tuple[list[Attention] | None, Mask | None, Fault | None]:
    """`count`: rows that the entry had; `same`: nothing that its calls depend on has changed."""
    made = []
    for index, call in enumerate(entry.attention or []):
        made.append(_places(walk, number, index, call, fed, count))
    mask = entry.mask
    told = _told(entry)
    place = made[told][1] if made else dict(fed[0].place)
    if mask is not None and mask.offset is not None:
        place["handed"] = walk.numbers.number(
            ("handed", number, 0), "handed", mask.offset, formulas.HANDED, place, base="held"
        )
        for _, other in made:
            other["handed"] = place["handed"]
    for index, call in enumerate(entry.attention or []):
        changed, own = made[index]
        _keys(walk, number, index, call, fed, changed, own)
    if mask is not None and mask.shape is not None:
        shape = _handed(walk, number, mask, place, fed, count)
        mask = msgspec.structs.replace(mask, shape=shape, offset=place.get("handed", mask.offset))
    calls = []
    for index, call in enumerate(entry.attention or []):
        changed, own = made[index]
        if isinstance(call.mask, tuple):
            key = f"mask {index}"
            changed["mask"] = _shape(walk, number, key, call.family, call.mask, own, fed, count)
            if mask is not None and mask.shape is not None and _as_handed(entry, call):
                changed["mask"] = (*changed["mask"][:-2], *mask.shape[-2:])
            own["m"] = changed["mask"][-1]
            if own["m"] == own.get("k") and isinstance(call.k, int) and call.mask[-1] != call.k:
                changed |= _fitting(call)
        if not same:
            changed |= dict.fromkeys(READ)
        calls.append(msgspec.structs.replace(call, **changed))
    error = entry.error
    if error is not None:
        error = _error(walk, number, error, made[-1][1] if made else place)
    return (calls if entry.attention is not None else None), mask, error


def _told(entry: Entry) -> int:
    """The call that a handed mask is for."""
    if entry.mask is not None:
        for index, call in enumerate(entry.attention or []):
            if entry.mask.family == call.family or call.mask == entry.mask.shape:
                return index
    return 0


def _as_handed(entry: Entry, call: Attention) -> bool:
    assert entry.mask is not None
    assert entry.mask.shape is not None
    return isinstance(call.mask, tuple) and call.mask[-2:] == entry.mask.shape[-2:]


def _places(
    walk: Walk, number: int, index: int, call: Attention, fed: list[Fed], count: int
) -> tuple[dict[str, Any], Places]:
    """The changed fields up to the keys, and the place that the rest follows from."""
    old = walk.window_of(call.family, call.window)
    window = walk.window(old)
    row = max(fed, key=lambda one: one.place["held"] or 0)
    place: Places = {**row.place, "W": window}
    changed: dict[str, Any] = {}
    if call.window is not None:
        changed["window"] = walk.window(call.window)
    if call.slack:
        changed["slack"] = walk.numbers.variable(("slack", -1, call.slack), call.slack, 1)
    for name, names, base in (
        ("offset", formulas.OFFSET, "held"),
        ("cursor", formulas.OFFSET, "cur"),
        ("live_start", formulas.LIVE_START, None),
        ("live", formulas.LIVE, "cur"),
        ("buffer", formulas.BUFFER, "held"),
        ("q", formulas.WIDTH, None),
        ("rope", formulas.OFFSET, "held"),
        ("key_padding", formulas.PADDING, "q"),
    ):
        value = getattr(call, name)
        if value is None:
            continue
        made = _each(walk, number, f"{name} {index}", f"{name} {call.family}", value, names, place, fed, base)
        changed[name] = made
        if isinstance(made, int) and name in ("live", "buffer", "live_start"):
            place[name] = made
    if call.vectors is not None:
        changed["vectors"] = {
            name: len(fed) if length == count else length for name, length in call.vectors.items()
        }
    return changed, place


def _each(
    walk: Walk,
    number: int,
    key: str,
    group: str,
    value: int | list[int],
    names: tuple[str, ...],
    place: Places,
    fed: Sequence[Fed],
    base: str | None,
) -> int | list[int]:
    """One number, or one by row."""
    if isinstance(value, int):
        return walk.numbers.number((key, number, 0), group, value, names, place, base=base)
    return [
        walk.numbers.number((key, number, one.index), group, value[one.index], names, one.place, base=base)
        for one in fed
        if one.index < len(value)
    ]


def _keys(
    walk: Walk,
    number: int,
    index: int,
    call: Attention,
    fed: list[Fed],
    changed: dict[str, Any],
    place: Places,
) -> None:
    if call.k is None:
        return
    key, group = f"k {index}", f"k {call.family}"
    changed["k"] = _each(walk, number, key, group, call.k, formulas.KEYS, place, fed, "cur+q")
    if isinstance(changed["k"], int):
        place["k"] = changed["k"]


def _handed(
    walk: Walk, number: int, mask: Mask, place: Places, fed: list[Fed], count: int
) -> tuple[int, ...]:
    """By its builder where that gave the recorded shape; else axis by axis."""
    assert mask.shape is not None
    builder, family = mask.builder, walk.families.get(mask.family or "")
    window = walk.window(family.window) if family is not None else None

    def built(queries: int | None, offset: int | None) -> tuple[int, int] | None:
        if builder not in masks.BUILDERS or queries is None or offset is None:
            return None
        return masks.shape(builder, queries, offset, width=window)

    shape = _shape(walk, number, "handed", mask.family, mask.shape, place, fed, count)
    made = built(shape[-2] if len(shape) > 1 else None, place.get("handed"))
    by_builder = walk.known("built", number, 0, lambda: made == mask.shape)
    return made if by_builder and made is not None else shape


def _fitting(call: Attention) -> dict[str, Any]:
    """A mask that has come to fit is not discarded, cropped or rejected any more."""
    fate = "used" if call.fate is not None else None
    return {"fate": fate, "fallback": None, "crop": None}


def _shape(
    walk: Walk,
    number: int,
    key: str,
    family: str | None,
    shape: tuple[int, ...],
    place: Places,
    fed: list[Fed],
    count: int,
) -> tuple[int, ...]:
    """`[..., q, m]`; an axis of one entry a row follows the rows."""
    lead = tuple(len(fed) if size == count and len(shape) > 2 else size for size in shape[:-2][:1])
    made = list(lead + shape[:-2][1:])
    axes = (
        ("queries", "mask queries", formulas.MASK_QUERIES),
        ("keys", f"mask {family}", formulas.MASK_KEYS),
    )
    for (axis, group, names), size in zip(axes[-len(shape) :], shape[-2:], strict=True):
        at = (f"{key} {axis}", number, 0)
        made.append(walk.numbers.number(at, group, size, names, place, base="q"))
    return tuple(made)


def _error(walk: Walk, number: int, error: Fault, place: Places) -> Fault:
    """The error text with the shapes that it would name."""
    seen = 0

    def renamed(shape: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal seen
        seen += 1
        made = list(shape)
        last = formulas.ERROR_KEYS if len(shape) < 4 else formulas.ERROR_OTHERS
        for axis, names in ((-1, last), (-2, formulas.ERROR_QUERIES)):
            if len(shape) >= -axis:
                key = (f"error {seen} {axis}", number, 0)
                made[axis] = walk.numbers.number(key, key[0], shape[axis], names, place)
        return tuple(made)

    def text(found: re.Match[str]) -> str:
        shape = tuple(int(n) for n in found.group().strip("()").split(",") if n.strip())
        return "(" + ",".join(str(n) for n in renamed(shape)) + ("," if len(shape) == 1 else "") + ")"

    said = _SHAPE.sub(text, error.text) if error.text else error.text
    seen = 0
    shapes = [renamed(shape) for shape in error.shapes] if error.shapes else error.shapes
    return msgspec.structs.replace(error, text=said, shapes=shapes)
