"""One question asked of every entry: is each of its calls so plainly right that no rule need look?

The answer may be a needless "no", never a wrong "yes": a property test runs the rules with and without it.
Most of a long trace is decode steps, so this is where the time of an inspection goes; hence the flat code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from mlxdiag.inspect.effect import PLAIN_BUILDERS
from mlxdiag.inspect.facts import Facts

if TYPE_CHECKING:
    from mlxdiag.inspect.run import Run
    from mlxdiag.traces.types import Attention, Entry

Form = tuple[str | None, int | None, int | None, int, int, int, bool]
"""What a family's calls recorded so far (cache, window, keep), then what they must meet: the attention's
window, bound and key cap of the cache (0: none; a negative window: ask the rules), may keys be quantised."""

_UNFIT = -1
_PLAIN = ("dense", "batch", "quantized")
_RING = ("rotating", "batch_rotating")
_FAMILIES = 1024


class Healthy:
    """Remembers, for the families of the present model, which formula their calls must meet."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.forms: dict[str | None, Form] = {}

    def forget(self) -> None:
        """The model changed; families may mean something else now."""
        self.forms.clear()

    def entry(self, entry: Entry) -> bool:
        """Whether nothing of the entry can interest a rule of a call, a batch, the numbers or the run."""
        rows, calls = entry.rows, entry.attention
        if (
            not rows
            or not calls
            or entry.error is not None
            or entry.output is not None
            or entry.mask is not None
            or entry.refused is not None
            or entry.dropped is not None
        ):
            return False
        offset = calls[0].offset
        batch = len(rows)
        ragged = offset.__class__ is list
        if offset is None or (ragged and len(offset) != batch):  # type: ignore[arg-type]
            return False
        padded = False
        for index, row in enumerate(rows):
            held = row.offset
            if held is not None and held != (offset[index] if ragged else offset):  # type: ignore[index]
                return False
            if row.left_padding is not None:
                padded = True
            tokens, logprob, emitted = row.tokens, row.logprob, row.emitted
            if (
                not tokens
                or (row.padded is not None and row.padded != tokens)
                or row.scheduled == 0
                or (logprob is not UNSET and logprob.__class__ is not float)
                or (row.classes is not None and len(row.classes) != emitted)
                or (row.ids is not None and len(row.ids) != emitted)
            ):
                return False
        forms = self.forms
        for a in calls:
            cache, recorded, keep, window, bound, cap, quantisable = forms.get(a.family) or self._form(a)
            q, k, cursor, rope, live, mask = a.q, a.k, a.cursor, a.rope, a.live, a.mask
            if a.cache != cache or a.window != recorded or a.keep != keep:
                self._form(a)
                return False
            if (
                window < 0
                or not q
                or k.__class__ is not int
                or a.offset != offset
                or (rope is not None and rope != offset)
                or a.fate is not None
                or a.fallback is not None
                or a.opaque
                or (a.kv_bits is not None and not quantisable)
                or a.vectors is not None
                or a.visible is not None
                or a.totals is not None
                or a.missing is not None
                or a.future is not None
                or a.padding is not None
                or a.foreign is not None
            ):
                return False
            if cursor is None:
                if ragged or padded:
                    return False
                cursor = offset  # type: ignore[assignment]
            elif not ragged and cursor != offset:
                return False
            if cursor < 0 or q < 0 or (padded and q > 1):  # type: ignore[operator]
                return False
            held = bound - 1 if bound and cursor >= bound else cursor  # type: ignore[operator]
            if live is not None and live != cursor:
                if cap and 0 <= live <= cursor:  # type: ignore[operator]
                    held = live
                elif not bound or live < held:  # type: ignore[operator]
                    return False
            elif cap and live is None and cursor > cap:  # type: ignore[operator]
                return False
            if k != held + q or (a.live_start and not cap):  # type: ignore[operator]
                return False
            if cap and a.live_start is not None and a.live_start != cursor - held:  # type: ignore[operator]
                return False
            if a.buffer is not None and a.buffer < k:
                return False
            if a.key_padding is not None and a.key_padding < cursor + q:  # type: ignore[operator]
                return False
            if window and k > window and a.builder in PLAIN_BUILDERS:
                return False
            if mask is None or mask.__class__ is str:
                # Rows that stand apart on one cursor have padding in front, said or not.
                if padded or ragged or (window and k > window) or (mask is None and q > 1):
                    return False
            elif mask is UNSET:
                if padded:
                    return False
            elif not _fits(mask, q, k, batch, padded):  # type: ignore[arg-type]
                return False
        return True

    def _form(self, a: Attention) -> Form:
        facts = self.run.facts(a.family)
        window, bound, cap = _limits(a, facts, self.run.scheduler.max_kv)
        quantisable = not (bound or window or a.sinks or facts.sinks)
        form = (a.cache, a.window, a.keep, window, bound, cap, quantisable)
        if len(self.forms) < _FAMILIES:
            self.forms[a.family] = form
        return form


def _limits(a: Attention, facts: Facts, cap: int | None) -> tuple[int, int, int]:
    """Window, bound and cap of the plain combinations; whatever else there is goes to the rules."""
    cache, window = a.cache or facts.cache, facts.window
    keep = a.keep if a.keep is not None else facts.keep
    if facts.kind == "full":
        if cache in _PLAIN and a.window is None:
            return (0, 0, cap or 0)
        if cache in _RING and cap is not None and a.window == cap and cap > keep + 1:
            return (0, cap, 0)
    if (
        facts.kind == "sliding"
        and window is not None
        and window > 1
        and a.window in (None, window)
        and not keep
    ):
        if cache in _PLAIN:
            return (window, 0, cap or 0)
        if cache in _RING:
            return (window, window, 0)
    return (_UNFIT, 0, 0)


def _fits(shape: tuple[int, ...], q: int, k: int, batch: int, padded: bool) -> bool:
    rank = len(shape)
    if rank < 2 or shape[-1] != k or shape[-2] != q:
        return False
    if rank == 2:
        return not padded
    return rank == 4 and shape[1] == 1 and (shape[0] == batch or (shape[0] == 1 and not padded))
