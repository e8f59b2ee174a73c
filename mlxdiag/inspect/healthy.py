"""One question asked of every entry: is each of its calls so plainly right that no rule need look?

The answer may be a needless "no", never a wrong "yes": a property test runs the rules with and without it.
Most of a long trace is decode steps, so this is where reading time goes; hence the flat code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from mlxdiag.inspect.facts import Facts

if TYPE_CHECKING:
    from mlxdiag.inspect.run import Run
    from mlxdiag.traces.types import Attention, Entry, Row

Bound = int | None
_UNFIT = -1
"""A layer whose calls always go to the rules."""

_DENSE = ("dense", "batch")
_RING = ("rotating", "batch_rotating")


class Healthy:
    """Remembers, for the families of one run, which formula their calls must meet."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.forms: dict[tuple[object, ...], tuple[int, int]] = {}
        """(family, cache, window, keep) -> (window of the attention or 0, bound of the ring or 0)."""

    def forget(self) -> None:
        """The model changed; families may mean something else now."""
        self.forms.clear()

    def entry(self, entry: Entry) -> bool:
        """Whether nothing of the entry can interest a rule of a call, a batch, the numbers or the run."""
        if (
            entry.error is not None
            or entry.output is not None
            or entry.mask is not None
            or entry.refused is not None
            or entry.dropped is not None
        ):
            return False
        rows = entry.rows
        calls = entry.attention
        if rows is None or calls is None:
            return False
        offset = calls[0].offset if calls else None
        if offset is None:
            return False
        batch = len(rows)
        if offset.__class__ is list and len(offset) != batch:
            return False
        padded = False
        for index, row in enumerate(rows):
            if row.left_padding is not None:
                padded = True
            held = offset if offset.__class__ is int else offset[index]  # type: ignore[index]
            if (row.offset is not None and row.offset != held) or not _plain(row):
                return False
        return all(self._call(call, offset, batch, padded) for call in calls)

    def _call(self, a: Attention, offset: int | list[int], batch: int, padded: bool) -> bool:
        form = self.forms.get((a.family, a.cache, a.window, a.keep)) or self._form(a)
        window, bound = form
        q = a.q
        k = a.k
        if (
            window < 0
            or q is None
            or k.__class__ is not int
            or a.offset != offset
            or (a.rope is not None and a.rope != offset)
            or a.live_start
            or a.fate is not None
            or a.fallback is not None
            or a.crop is not None
            or a.asked is not None
            or a.done is not None
            or a.kv_bits is not None
            or a.vectors is not None
            or a.visible is not None
            or a.first is not None
            or a.last is not None
            or a.totals is not None
            or a.missing is not None
            or a.future is not None
            or a.padding is not None
            or a.foreign is not None
        ):
            return False
        cursor = a.cursor
        if cursor is None:
            if offset.__class__ is not int or padded:
                return False
            cursor = offset
        elif cursor != offset and (batch == 1 or offset.__class__ is int):
            return False
        if cursor < 0 or q < 1 or (padded and q > 1):
            return False
        if bound:
            expected = min(cursor + 1, bound) if q == 1 else min(cursor, bound - 1) + q
            if a.live is not None and a.live < min(cursor, bound - 1):
                return False
        else:
            expected = cursor + q
            if a.live is not None and a.live != cursor:
                return False
        if k != expected or (a.buffer is not None and a.buffer < k):
            return False
        mask = a.mask
        if mask is None or mask.__class__ is str:
            return not padded and not (window and k > window)
        if mask is UNSET:
            return not padded
        return _fits(mask, q, k, batch, padded)  # type: ignore[arg-type]

    def _form(self, a: Attention) -> tuple[int, int]:
        facts = self.run.facts(a.family)
        form = _form(a, facts, self.run.scheduler.max_kv)
        if len(self.forms) < 1024:
            self.forms[(a.family, a.cache, a.window, a.keep)] = form
        return form


def _form(a: Attention, facts: Facts, cap: int | None) -> tuple[int, int]:
    """Only the plain combinations; whatever else there is goes to the rules."""
    cache = a.cache or facts.cache
    if a.keep or facts.keep or cap is not None:
        return (_UNFIT, 0)
    if facts.kind == "full" and a.window is None and cache in _DENSE:
        return (0, 0)
    window = facts.window
    if facts.kind != "sliding" or window is None or window < 2 or a.window not in (None, window):
        return (_UNFIT, 0)
    if cache in _DENSE:
        return (window, 0)
    return (window, window) if cache in _RING else (_UNFIT, 0)


def _plain(row: Row) -> bool:
    """A row that was fed and emitted as any: nothing for the rules of batches and numbers."""
    tokens = row.tokens
    if tokens is None or tokens < 1:
        return False
    logprob = row.logprob
    return (
        (row.padded is None or row.padded == tokens)
        and row.scheduled != 0
        and (logprob is UNSET or logprob.__class__ is float)
        and (row.classes is None or len(row.classes) == row.emitted)
        and (row.ids is None or len(row.ids) == row.emitted)
    )


def _fits(shape: tuple[int, ...], q: int, k: int, batch: int, padded: bool) -> bool:
    rank = len(shape)
    if rank < 2 or shape[-1] != k or shape[-2] != q:
        return False
    if rank == 2:
        return not padded
    return rank == 4 and shape[1] == 1 and (shape[0] == batch or (shape[0] == 1 and not padded))
