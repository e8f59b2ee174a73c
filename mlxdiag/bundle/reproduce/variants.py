"""Schedules around a fault: the same tokens fed in other pieces, alone, or at once. Pure data."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from mlxdiag.replay.shrink.search import LENGTHS
from mlxdiag.replay.shrink.sketch import Sketch
from mlxdiag.replay.shrink.walk import Edits
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Mask, Row, Scheduler, Trace

PROMPT = ("prefill", "chunk")
MIDDLE = 8
"""Window of the schedule whose chunks are varied: large enough for sizes on both sides of it."""
REBUILT = (None, "causal", "padded", "capped")
MOST_DECODES = 8
"""Forwards of one token that a variant repeats."""


class Prompt(msgspec.Struct, frozen=True):
    """What one sequence was fed before its first answer, and how."""

    seq: str
    tokens: int
    chunk: int
    """Tokens of its largest forward."""
    decodes: int
    mask: Mask | None = None
    """The scheduler's mask of the last forward that had one."""
    at: int = 0
    """Where the sequence stood when it was given that mask."""
    masked: frozenset[str] = frozenset()
    """Phases of the forwards that had one."""
    window: int | None = None
    """Of the layers that the mask was for."""
    handed: bool = False
    """Some attention call worked with, or dropped, a mask that the model had not made."""


def prompt_of(trace: Trace, seq: str | None) -> Prompt | None:
    """Of the sequence at fault, or the first that was fed; None where no forward names its tokens."""
    names = [row.seq for entry in trace.entries for row in entry.rows or () if row.seq is not None]
    name = seq if seq in names else (names[0] if names else None)
    if name is None:
        return None
    fed = [
        (entry, row)
        for entry in trace.entries
        if entry.kind in FORWARD_PHASES
        for row in entry.rows or ()
        if row.seq == name and row.tokens
    ]
    first = [(entry, row) for entry, row in fed if entry.kind in PROMPT]
    if not first:
        return None
    masks = [(entry.mask, row.offset or 0) for entry, row in first if entry.mask is not None]
    return Prompt(
        seq=name,
        tokens=sum(row.tokens or 0 for _, row in first),
        chunk=max(row.tokens or 0 for _, row in first),
        decodes=min(sum(entry.kind == "decode" for entry, _ in fed), MOST_DECODES),
        mask=masks[-1][0] if masks else None,
        at=masks[-1][1] if masks else 0,
        masked=frozenset(entry.kind for entry, _ in first if entry.mask is not None),
        window=_window(trace, masks[-1][0].family if masks else None),
        handed=any(_foreign(call) for entry, _ in first for call in entry.attention or ()),
    )


def _foreign(call: Attention) -> bool:
    return call.fate not in (None, "used") or call.fallback is not None


def chunked(trace: Trace, prompt: Prompt, chunk: int, *, own: bool = False) -> Trace:
    """The sequence alone, its prompt in pieces of `chunk`, then its decodes; the library makes every mask.

    `own`: the scheduler's mask is handed in again by the rule that made the recorded one.
    """
    entries = [entry for entry in trace.entries if entry.kind == "model"]
    entries += list(_forwards(prompt, chunk, own))
    scheduler = trace.header.scheduler or Scheduler()
    kept = replace(
        scheduler, chunk=chunk if chunk < prompt.tokens else None, pad_to=scheduler.pad_to if own else None
    )
    return Trace(replace(trace.header, scheduler=kept, note=None, planted=None), entries)


def _forwards(prompt: Prompt, chunk: int, own: bool) -> Iterator[Entry]:
    step = offset = 0
    while offset < prompt.tokens:
        step += 1
        tokens = min(chunk, prompt.tokens - offset)
        row = Row(seq=prompt.seq, offset=offset, tokens=tokens, total=prompt.tokens)
        phase = "chunk" if offset else "prefill"
        mask = _mask(prompt, offset, tokens) if own and phase in prompt.masked else None
        yield Entry(step=step, phase=phase, rows=[row], mask=mask)
        offset += tokens
    for _ in range(prompt.decodes):
        step += 1
        yield Entry(step=step, phase="decode", rows=[Row(seq=prompt.seq, offset=offset, tokens=1)])
        offset += 1


def _mask(prompt: Prompt, offset: int, tokens: int) -> Mask | None:
    """Built as the recorded one was: at zero, at the right offset, or at what the window keeps of it."""
    old = prompt.mask
    built = _built_at(prompt, offset)
    if old is None or built is None:
        return None
    keys = built + tokens
    if old.builder == "capped":
        keys = min(prompt.window or keys, keys)
    return replace(old, shape=(tokens, keys), offset=built)


def _built_at(prompt: Prompt, offset: int) -> int | None:
    """The offset that the recorded program would build its mask with; None where no rule explains its own."""
    old, kept = prompt.mask, (prompt.window or 0) - 1
    if old is None or old.offset is None:
        return None
    if old.offset == prompt.at:
        return offset
    if prompt.window is not None and old.offset == min(prompt.at, kept):
        return min(offset, kept)
    return 0 if old.offset == 0 else None


def can_be_rebuilt(prompt: Prompt) -> bool:
    """Whether the rule of the scheduler's mask is known well enough to hand it in at other lengths."""
    old = prompt.mask
    if old is None or old.shape is None or len(old.shape) != 2 or old.builder not in REBUILT:
        return False
    made = _mask(prompt, prompt.at, old.shape[0])
    return made is not None and made.shape == old.shape


def _window(trace: Trace, family: str | None) -> int | None:
    """Of a family, or the only one that there is."""
    layers = [entry.layers for entry in trace.entries if entry.layers]
    known = {
        **(trace.header.model.layers or {} if trace.header.model else {}),
        **(layers[-1] if layers else {}),
    }
    windows = {one.window for name, one in known.items() if one.window and family in (None, name)}
    return next(iter(windows)) if len(windows) == 1 else None


def middle(trace: Trace) -> Trace | None:
    """All lengths in proportion, the largest window `MIDDLE`; None where nothing is that long."""
    sketch = Sketch(trace)
    lengths = {key: one for key, one in sketch.variables.items() if key[0] in LENGTHS}
    windows = [one.value for key, one in lengths.items() if key[0] == "window"]
    unit = max(windows or [one.value for key, one in lengths.items() if key[0] == "tokens"], default=0)
    if unit <= MIDDLE:
        return None
    scaled = {key: max(one.least, -(-one.value * MIDDLE // unit)) for key, one in lengths.items()}
    return sketch.write(Edits(values=scaled))


def alone(trace: Trace, seq: str | None) -> Trace | None:
    """The sequence at fault, or the first, without any other; None where there is no other."""
    sketch = Sketch(trace)
    names = sketch.sequences(Edits())
    if len(names) < 2:
        return None
    seq = seq if seq in names else names[0]
    return sketch.write(Edits(gone=frozenset(name for name in names if name != seq)))
