"""Which masks the trace's scheduler handed in, and how they were built. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.replay import masks
from mlxdiag.replay.ops import CacheChoice, CallerMask, Cut, Feed, Forward, Op, Unmasked
from mlxdiag.replay.tape import LONGEST
from mlxdiag.traces.types import Attention, Entry, Family, Trace


def of(
    entry: Entry, feed: Feed, families: dict[str, Family], own: Mapping[str, CacheChoice], place: str
) -> Iterator[CallerMask]:
    """The caller masks of a forward: the scheduler's own, else one per family whose mask misses its keys.

    A buffered ring sizes its own masks short, so there a recorded mask is handed in even where it fits.
    """
    if entry.mask is not None and entry.mask.shape is not None:
        shape = entry.mask.shape
        family = entry.mask.family
        if family is not None and family not in families:
            raise UnreadableError(f"{place}: mask.family: no {family!r} layers; known: {', '.join(families)}")
        window = families[family].window if family is not None else None
        yield _caller(
            shape,
            entry.mask.offset,
            feed,
            family,
            window,
            entry.mask.source or "scheduler",
            entry.mask.builder,
            f"{place}: mask",
        )
        return
    for i, call in enumerate(entry.attention or []):
        choice = own.get(call.family or "")
        buffered = choice is not None and choice.kind == "buffered"
        if not isinstance(call.mask, tuple) or len(call.mask) < 2 or not isinstance(call.k, int):
            continue
        shape = call.mask
        if shape[-1] == call.k and not (buffered and (call.q or 0) > 1):
            continue
        window = call.window or (families[call.family].window if call.family in families else None)
        yield _caller(
            shape,
            _offset(call, shape, window),
            feed,
            call.family,
            window,
            f"attention[{i}]",
            "window" if window is not None and shape[-1] != window and shape[-1] > shape[-2] else None,
            f"{place}: attention[{i}].mask",
        )


def unmasked(
    entry: Entry, families: dict[str, Family], own: Mapping[str, CacheChoice], *, hidden: bool = False
) -> Iterator[Unmasked]:
    """Layers that the trace shows without the mask that was due.

    A batch with left padding needs a mask with a batch axis, and so does right padding that only a mask can
    hide (`hidden`); a sliding layer past its window needs the band, and several queries some mask at all. A
    single query needs none on a ring, which holds at most its window.
    """
    if entry.mask is not None:
        return
    rows = entry.rows or []
    padded = hidden or (len(rows) > 1 and any((row.left_padding or 0) > 0 for row in rows))
    tokens = max(((row.padded or row.tokens or 0) for row in entry.rows or []), default=0)
    for call in entry.attention or []:
        if call.mask not in (None, "causal"):
            continue
        q = call.q if call.q is not None else tokens
        family = families.get(call.family or "")
        choice = own.get(call.family or "")
        dense = call.cache == "dense" or (choice is not None and choice.kind == "dense")
        beyond = (
            family is not None
            and family.attention == "sliding"
            and family.window is not None
            and isinstance(call.k, int)
            and call.k > family.window
            and (q > 1 or dense)
        )
        if padded or beyond or (call.mask is None and q > 1):
            yield Unmasked(call.family, call.mask == "causal")


def columns(entry: Entry) -> int | None:
    """Columns of the 2-D padding mask that the forward was given; None where it had one for every token."""
    short = [
        call.key_padding
        for call in entry.attention or []
        if call.key_padding is not None and call.key_padding < _tokens(call)
    ]
    return min(short, default=None)


def _tokens(call: Attention) -> int:
    """Held and new, as far as the call says how many."""
    held = call.cursor if call.cursor is not None else call.offset
    return held + (call.q or 0) if isinstance(held, int) else 0


def _offset(call: Attention, shape: tuple[int, ...], window: int | None) -> int | None:
    """The offset that a recorded mask was built with, as far as its shape tells."""
    q, m = shape[-2], shape[-1]
    if m != window:
        return m - q
    # A mask capped to the window is the same at any offset; that of the call says that none was stale.
    own = call.offset
    return own if isinstance(own, int) and q != m and own + q > m else None


def _caller(
    shape: tuple[int, ...],
    offset: int | None,
    feed: Feed,
    family: str | None,
    window: int | None,
    source: str,
    builder: str | None,
    where: str,
) -> CallerMask:
    if len(shape) < 2 or min(shape) < 1:
        raise UnreadableError(f"{where}.shape: {list(shape)} is not a mask of queries x keys")
    if max(shape[:-2], default=1) > 1:
        raise UnjudgedError(f"{where}.shape: {list(shape)} differs by row; a replay builds one for all rows")
    q, m = shape[-2], shape[-1]
    if max(q, m) > LONGEST:
        raise UnjudgedError(f"{where}.shape: a mask of {q} x {m} is more than a replay builds ({LONGEST})")
    guess = masks.guess_builder(q, m, offset, padding=bool(feed.right), width=window)
    if builder is not None:
        if builder not in masks.BUILDERS:
            raise UnreadableError(f"{where}.builder: {builder!r}; known: {', '.join(masks.BUILDERS)}")
        if builder in ("window", "capped") and window is None:
            raise UnreadableError(f"{where}.builder: {builder} needs mask.family, and its window")
        at = offset if offset is not None else (guess[1] if guess else max(m - q, 0))
        built = masks.shape(builder, q, at, width=window)
        if built != (q, m):
            raise UnreadableError(
                f"{where}.shape: {builder} built at offset {at} gives {list(built)}, not {[q, m]}"
            )
        guess = builder, at
    if guess is None:
        raise UnreadableError(
            f"{where}.shape: no mask builder gives {[q, m]} at offset {offset}; name one with mask.builder"
        )
    return CallerMask(guess[0], guess[1], (q, m), feed.tokens, family, window, source)


FALLBACKS = {"causal": "windowed", "oldest": "none"}
"""Policies of which a fallback is one layer's share: plain causal masks on full layers, and what sdpa makes
of no mask at all."""


def recorded_misfit(trace: Trace) -> str | None:
    """The policy that the recorded fates and fallbacks speak of, as `--misfit` names it."""
    for entry in trace.entries:
        for call in entry.attention or []:
            if call.fate == "discarded" and call.fallback:
                return f"discard:{FALLBACKS.get(call.fallback, call.fallback)}"
            if call.fallback == "sliced" and (call.q or 0) > 1:
                return "crop:old"
            if call.fate == "cropped":
                return f"crop:{call.crop or 'old'}"
            if call.fate == "rebuilt":
                return "rebuild"
            if call.fate == "rejected":
                return "raise"
    return None


def undecided(trace: Trace) -> bool:
    """Whether masks were dropped and nothing says what attention fell back to."""
    calls = [call for entry in trace.entries for call in entry.attention or []]
    dropped = [call for call in calls if call.fate == "discarded"]
    return bool(dropped) and all(call.fallback is None for call in dropped)


def planted(ops: Iterable[Op], chosen: dict[str, CacheChoice]) -> Iterator[str]:
    """What the replay puts in because the library itself never does it."""
    seen = set()
    for given in dict.fromkeys(u for op in ops if isinstance(op, Forward) for u in op.unmasked):
        layers = f"the {given.family} layers" if given.family else "every layer"
        what = 'the plain "causal" mask' if given.causal else "no mask"
        yield f"{layers} are given {what}, as recorded, in place of the library's own"
    if any(isinstance(op, Forward) and op.columns is not None for op in ops):
        yield "a caller's 2-D attention mask has fewer columns than there are tokens"
    for op in ops:
        if isinstance(op, Cut):
            yield from _not_given_back(op)
        for mask in op.callers if isinstance(op, Forward) else ():
            key = (mask.builder, mask.family)
            if key not in seen:
                seen.add(key)
                layers = f"the {mask.family} layers" if mask.family else "every layer"
                yield f"a caller's {mask.builder} mask is handed to {layers} in place of the library's own"
    for family, choice in chosen.items():
        if choice.why:
            yield f"the {family} layers run on a {choice.kind} cache: {choice.why}"


def _not_given_back(cut: Cut) -> Iterator[str]:
    for family, kept in cut.kept.items():
        layers = f"the {family} layers give" if family else "the caches give"
        yield f"step {cut.step}: {layers} back {cut.tokens - kept} of {cut.tokens} tokens, as the trace says"
