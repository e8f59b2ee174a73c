"""One attention call with everything the rules ask of it worked out once. Pure numbers, no arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from mlxdiag.inspect import geometry
from mlxdiag.inspect.facts import BATCHED, Facts
from mlxdiag.traces.types import Attention, Entry, Mask, Row

if TYPE_CHECKING:
    from mlxdiag.inspect.run import Run


class Call(msgspec.Struct, kw_only=True):
    """`None` means not observed throughout. Notation of the fields: lengths in tokens, see `geometry.py`."""

    entry: Entry
    attention: Attention
    index: int
    """Position in the entry's attention list."""
    facts: Facts = Facts()
    family: str | None = None
    kind: str | None = None
    """What the *config* says the layer is: full, sliding, chunked or recurrent."""
    cache: str | None = None
    window: int | None = None
    """Of the attention, from the config; None on full layers."""
    bound: int | None = None
    """Of the cache: its own window where the trace records one (a key cap bounds full layers too)."""
    keep: int = 0
    slack: int = 0
    q: int | None = None
    k: int | None = None
    """Returned key length (of the row where it is a list of equal ones)."""
    ks: list[int] | None = None
    """Per packed row, where the trace gives a list."""
    mask_kind: str | None = None
    """none, causal or array; None where the mask was not observed."""
    m: int | None = None
    """Key axis of an array mask."""
    mask_q: int | None = None
    """Query axis; None for a one-axis mask and for a score bias (see `bias`)."""
    mask_batch: int | None = None
    """Batch axis of a four-axis mask, or the first of a three-axis one; None where it has none."""
    mask_rank: int = 0
    bias: bool = False
    """Four axes with one entry a head: a score array (MLA families), to be judged on its key axis only."""
    handed: Mask | None = None
    """The scheduler's mask, where this layer is given it."""
    handed_in_use: bool = False
    """The scheduler's mask is the one that this layer worked with, or dropped, cropped or rebuilt."""
    builder: str | None = None
    """How the array that the layer holds was built, where that is recorded."""
    batch: int | None = None
    cursor: int | None = None
    """The cache's own integer before the call: the batch cursor for batch caches, else the offset."""
    offsets: list[int] | None = None
    """Per row, before the call: the position of each row's next token."""
    live_start: int = 0
    live: int | None = None
    """`cursor - live_start`: keys held before the call."""
    live_known: bool = False
    """`live` was recorded, or nothing declared could make it differ from `cursor`."""
    kept: int | None = None
    """`min(cursor, window - 1)`."""
    fallback: str | None = None
    fate: str | None = None
    crop: str | None = None


def build(entry: Entry, index: int, run: Run) -> Call:
    """Work out a call, filling what the trace leaves out: family facts from the model entry, offsets and
    query length from the rows, the mask from the scheduler's, fate and fallback from the declared misfit."""
    a = entry.attention[index]  # type: ignore[index]
    rows = entry.rows or []
    facts = run.facts(a.family)
    call = Call(entry=entry, attention=a, index=index, facts=facts, family=a.family)
    _identity(call, a, facts, rows)
    _lengths(call, a, rows)
    _held(call, a, rows, run)
    _mask(call, a, entry.mask)
    _misfit(call, a, run.scheduler.misfit)
    return call


def _identity(call: Call, a: Attention, facts: Facts, rows: list[Row]) -> None:
    many = len(rows) > 1 or isinstance(a.offset, list)
    call.kind = facts.kind or (None if a.window is None else "sliding")
    call.cache = a.cache or facts.cache or ("rotating" if a.window is not None else None)
    if many and a.cache is None:
        if isinstance(a.k, list):
            call.cache = "paged"
        else:
            call.cache = {"dense": "batch", "rotating": "batch_rotating"}.get(call.cache or "", call.cache)
    call.window = facts.window if facts.kind else a.window
    if call.window is None and call.kind != "full":
        call.window = a.window
    call.bound = a.window if a.window is not None else call.window
    call.keep = a.keep if a.keep is not None else facts.keep
    call.slack = a.slack if a.slack is not None else facts.slack
    call.batch = len(rows) or (len(a.offset) if isinstance(a.offset, list) else None)


def _lengths(call: Call, a: Attention, rows: list[Row]) -> None:
    fed = [row.padded or row.tokens for row in rows]
    known = [count for count in fed if count is not None]
    call.q = a.q if a.q is not None else max(known, default=None)
    if isinstance(a.k, list):
        call.ks = a.k
        call.k = a.k[0] if a.k and min(a.k) == max(a.k) else None
    else:
        call.k = a.k


def _held(call: Call, a: Attention, rows: list[Row], run: Run) -> None:
    call.offsets = _offsets(a, rows)
    call.cursor = _cursor(call, a, rows)
    cursor = call.cursor
    if cursor is None:
        call.live = a.live
        call.live_known = a.live is not None
        return
    cap = run.scheduler.max_kv
    if a.live_start is not None:
        call.live_start, call.live_known = a.live_start, True
    elif a.live is not None:
        call.live_start, call.live_known = max(cursor - a.live, 0), True
    elif cap is not None and call.cache in ("dense", "quantized") and cursor > cap:
        # A cap that acts after each step leaves at most `cap` keys; whether it acted is not recorded.
        call.live_start = cursor - cap
    else:
        call.live_known = call.cache != "buffered"
    call.live = cursor - call.live_start
    if call.bound is not None:
        call.kept = geometry.kept(cursor, call.bound, call.keep)


def _offsets(a: Attention, rows: list[Row]) -> list[int] | None:
    """Positions. One integer for the rows of a batch cache is its cursor, and no row's own position."""
    if isinstance(a.offset, list):
        return a.offset
    offsets = [row.offset for row in rows if row.offset is not None]
    told = bool(offsets) and len(offsets) == len(rows)
    if a.offset is None or (told and len(rows) > 1 and a.cache in BATCHED):
        return offsets if told else None
    return [a.offset] * max(len(rows), 1)


def _cursor(call: Call, a: Attention, rows: list[Row]) -> int | None:
    """One integer for all rows. Ragged rows share it only behind left padding that is recorded."""
    if a.cursor is not None:
        return a.cursor
    if isinstance(a.offset, int) and call.cache in BATCHED:
        return a.offset
    if not call.offsets or call.cache == "paged":
        return None if not call.offsets or len(call.offsets) > 1 else call.offsets[0]
    padding = [row.left_padding or 0 for row in rows] if len(rows) == len(call.offsets) else []
    if call.cache in BATCHED and any(padding):
        filled = {offset + pad for offset, pad in zip(call.offsets, padding, strict=True)}
        return filled.pop() if len(filled) == 1 else None
    return call.offsets[0] if min(call.offsets) == max(call.offsets) else None


def _mask(call: Call, a: Attention, handed: Mask | None) -> None:
    if handed is not None and handed.family not in (None, a.family):
        handed = None
    call.handed = handed
    call.builder = a.builder
    mask = a.mask
    shape = handed.shape if handed is not None else None
    dropped = a.fate in ("discarded", "cropped", "rebuilt")
    if mask is UNSET or (mask is None and a.fate == "discarded"):
        mask = shape if shape is not None else mask
    if handed is not None:
        held = _plain(mask) if isinstance(mask, tuple) else None
        given = mask is UNSET or (held is not None and (shape is None or _plain(shape) == held))
        call.handed_in_use = dropped or given
        if call.handed_in_use:
            call.builder = handed.builder
    if mask is UNSET:
        return
    if mask is None:
        call.mask_kind = "none"
    elif isinstance(mask, str):
        call.mask_kind = mask
    else:
        _axes(call, mask)


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without the leading axes of length 1 that one library adds and another does not."""
    first = next((i for i, n in enumerate(shape) if n != 1 or i == len(shape) - 2), 0)
    return tuple(shape[first:])


def _axes(call: Call, shape: tuple[int, ...]) -> None:
    call.mask_kind = "array"
    call.mask_rank = len(shape)
    if not shape:
        return
    call.m = shape[-1]
    call.bias = len(shape) == 4 and shape[1] > 1
    if call.bias:
        return
    if len(shape) >= 2:
        call.mask_q = shape[-2]
    if len(shape) >= 3:
        call.mask_batch = shape[0]


def _misfit(call: Call, a: Attention, declared: str | None) -> None:
    """What the consumer did; a declared policy speaks for a call whose own fate was not recorded."""
    call.fate, call.fallback, call.crop = a.fate, a.fallback, a.crop
    fits = call.m is None or call.k is None or call.m == call.k
    if call.fate is not None or declared is None or fits:
        return
    action, _, detail = declared.partition(":")
    if action == "discard":
        call.fate, call.fallback = "discarded", call.fallback or detail or None
    elif action == "crop" and call.m is not None and call.k is not None and call.m > call.k:
        call.fate, call.crop = "cropped", call.crop or detail or None
    elif action == "rebuild":
        call.fate = "rebuilt"
    elif action in ("strict", "raise"):
        call.fate = "rejected"
