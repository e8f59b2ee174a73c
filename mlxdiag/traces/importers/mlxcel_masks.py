"""What mlxcel's line "mask shorter than key length" proves, once the whole log is read.

The same words stand for a prompt piece whose mask was built for another offset, and for a speculative verify
whose mask is capped while the ring still holds uncompacted keys, which is harmless. The span that the line
was printed in tells them apart, or the window; where neither is known nothing is decided.

Facts used: a ring returns `min(offset, W - 1) + q` keys, a dense cache `offset + q`; a buffered ring
`live + q`, and its own mask has `min(live, W - 1) + q` columns; prompt pieces are padded to 32 tokens on
some machines; the scheduler's mask has `kv_offset + q` columns. Builds that print `query_len` fall back to
windowed causal attention. Before 2026-06-24 no build did: keys were sliced to the window.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import structs

from mlxdiag.traces.importers.draft import Draft, Step, filled
from mlxdiag.traces.types import Attention, Mask, Row

TILE = 32
"""Tokens that a prompt piece is padded to."""
_DATE = re.compile(r"\b(20\d\d-\d\d-\d\d)[T ]\d\d:")
_WINDOWED_SINCE = "2026-06-24"
PROMPT = ("prefill", "chunked_prefill_start", "chunked_prefill_continue")
VERIFY = "speculative_slice_round"


class Discard(msgspec.Struct, frozen=True, kw_only=True):
    """One such line. Lengths in tokens; None where the line does not say."""

    kind: str | None
    """The span."""
    seq: str | None
    m: int
    k: int
    q: int | None
    offset: int | None
    total: int | None
    slice: int | None
    chunk: int | None
    text: str


class _Pending(msgspec.Struct):
    line: Discard
    step: Step
    fallback: str | None
    count: int = 1


class DiscardedMasks:
    """Holds the lines back until the window is known, which a later line may tell. One per distinct line."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._pending: dict[tuple[object, ...], _Pending] = {}
        self._live: dict[str | None, tuple[int, int]] = {}
        self._slack = 0
        """The most keys beyond the window that a buffered ring was seen to hold."""

    def add(self, line: Discard, step: Step | None) -> None:
        """`step` is the prompt piece that the line belongs to; None where it names none."""
        key = (id(step), line.kind, line.seq, line.slice, line.m, line.k, line.q)
        if key in self._pending:
            self._pending[key].count += 1
            return
        step = step or self.draft.step("note")
        self._pending[key] = _Pending(line, step, _fallback(line))
        q = _queries(line)
        if line.kind in PROMPT and q is not None and line.offset is not None:
            kept = line.k - q
            if 0 < kept < line.offset and kept % 2:
                self.draft.windows[kept + 1] = self.draft.windows.get(kept + 1, 0) + 1
        elif line.kind == VERIFY and line.q is not None and line.m > line.q:
            window = line.m - line.q + 1
            self.draft.windows[window] = self.draft.windows.get(window, 0) + 1
            self._slack = max(self._slack, line.k - window)

    def settle(self) -> None:
        """Write every line into its step."""
        window = self.draft.window()
        if window is not None and self.draft.model is None and self._pending:
            why = "key_len - query length + 1 of a full ring"
            self.draft.model_inferred.setdefault("model.layers.window", why)
        for pending in self._pending.values():
            self._one(pending, window)
        known = {pending.fallback for pending in self._pending.values()}
        if known == {"windowed"} or known == {"sliced"}:
            self.draft.scheduler["misfit"] = f"discard:{known.pop()}"
        if any(pending.step.rows and pending.step.rows[0].padded for pending in self._pending.values()):
            self.draft.scheduler["pad_to"] = TILE
        self._pending.clear()

    def _one(self, pending: _Pending, window: int | None) -> None:
        line, step = pending.line, pending.step
        if line.kind in PROMPT and line.offset is not None:
            self._piece(pending, window)
        elif line.kind == VERIFY or _is_verify(line, window):
            self._verify(pending, window)
        elif line.kind is None and window is not None and line.m < window and line.k - line.m == window - 1:
            self._lone(pending, window)
        elif line.q == 1:
            step.phase = "decode"
            step.rows = [Row(seq=line.seq, tokens=1)]
            step.calls = [Attention(q=1, k=line.k)]
            step.note(f"a mask of {line.m} was dropped for {line.k} keys: a single query needs none")
        else:
            queries = f" and {line.q} queries" if line.q else ""
            step.note(
                f"undecided: a mask of {line.m} was dropped for {line.k} keys{queries}; harmless in a "
                "speculative verify, not in a chunk of a prompt. The line names no span; the window "
                "(--config) or the lines around it decide"
            )

    def _piece(self, pending: _Pending, window: int | None) -> None:
        line, step = pending.line, pending.step
        q = _queries(line)
        assert line.offset is not None
        _lay_row(line, step, q)
        family, call_window = self._family(line, q, window, step)
        mask = (q, line.m) if q is not None else (line.m,)
        call = Attention(
            family=family,
            window=call_window,
            q=q,
            k=line.k,
            mask=mask,
            fate="discarded",
            fallback=_for_family(pending.fallback, family),
        )
        if pending.fallback is not None:
            step.infer("attention.fallback", _WHY[pending.fallback])
        if q is not None and step.mask is None:
            padded = bool(step.rows and step.rows[0].padded)
            step.mask = Mask(
                shape=(q, line.m),
                offset=line.m - q,
                source="scheduler",
                builder="padded" if padded else "causal",
            )
            step.infer("mask.offset", f"mask_len {line.m} less {q} queries")
            step.infer("mask.builder", "of the scheduler, which knows no window")
        if call not in step.calls:
            step.calls = [*step.calls, call]

    def _family(
        self, line: Discard, q: int | None, window: int | None, step: Step
    ) -> tuple[str | None, int | None]:
        """The layers that return so many keys, and their window where the config has not told it."""
        if q is None or line.offset is None:
            return None, None
        kept = line.k - q
        if kept == line.offset and window is not None and kept >= window:
            step.infer("attention.family", f"{kept} keys before the piece are all of them: no window")
            return self.draft.family("full"), None
        if kept < line.offset and window is not None and kept == window - 1:
            step.infer("attention.family", f"{kept} keys of {line.offset} are left: a full ring")
            sliding = self.draft.family("sliding")
            return sliding, None if self.draft.model is not None else window
        if kept == line.offset and window is not None:
            step.note(f"{line.k} keys: below the window sliding and full layers return the same")
        return None, None

    def _verify(self, pending: _Pending, window: int | None) -> None:
        line, step = pending.line, pending.step
        q = line.q if line.q is not None else line.m - window + 1 if window is not None else None
        if q is None or not 1 < q < line.m:
            step.note(
                f"undecided: a verify dropped a mask of {line.m} for {line.k} keys; the block is not known"
            )
            return
        live = line.k - q
        step.phase = "verify"
        before = self._live.get(line.seq)
        offset = live if before is None else None
        if before is not None and 0 < live - before[1] <= q:
            offset = before[0] + live - before[1]
        if offset is not None:
            self._live[line.seq] = (offset, live)
        step.rows = [Row(seq=line.seq, offset=offset, tokens=q)]
        step.calls = [
            Attention(
                family=self.draft.family("sliding"),
                cache="buffered",
                window=line.m - q + 1,
                slack=max(self._slack, q),
                live=live,
                q=q,
                k=line.k,
                mask=(q, line.m),
                fate="discarded",
                fallback=_for_family(pending.fallback, "sliding"),
            )
        ]
        step.infer("attention.cache", "only a buffered ring returns more keys than its own mask is capped at")
        step.infer("attention.window", f"mask_len {line.m} = W - 1 + {q}")
        step.infer("attention.slack", "the ring was seen to hold so many keys beyond its window")
        step.infer("attention.live", f"key_len {line.k} less {q} queries")
        step.infer("rows.offset", "what the ring holds, as if nothing had been compacted")
        if line.q is None:
            step.infer("attention.q", "mask_len = W - 1 + q with the config's window")
        if pending.fallback is not None:
            step.infer("attention.fallback", _WHY[pending.fallback])

    def _lone(self, pending: _Pending, window: int) -> None:
        """Without a span: `W - 1` keys besides the mask's own columns, so the mask was built at offset 0."""
        line, step = pending.line, pending.step
        step.phase = "chunk"
        step.rows = [Row(seq=line.seq, tokens=line.m)]
        step.mask = Mask(shape=(line.m, line.m), offset=0, source="scheduler", builder="causal")
        step.calls = [
            Attention(
                family=self.draft.family("sliding"),
                q=line.m,
                k=line.k,
                mask=(line.m, line.m),
                fate="discarded",
                fallback=_for_family(pending.fallback, "sliding"),
                live_start=None,
            )
        ]
        why = f"key_len - mask_len = {line.k - line.m} = W - 1: a full ring, and a mask built at offset 0"
        for field in ("attention.family", "attention.q", "mask.offset", "rows.tokens"):
            step.infer(field, why)


_WHY = {
    "windowed": "builds that print query_len fall back to windowed causal attention",
    "sliced": f"no build before {_WINDOWED_SINCE} did anything else",
}


def _fallback(line: Discard) -> str | None:
    """What the build does without the mask; None where neither the line's form nor its date proves it."""
    if line.q is not None or "DEBUG" in line.text:
        return "windowed"
    date = _DATE.search(line.text)
    return "sliced" if date and date[1] < _WINDOWED_SINCE else None


def _for_family(fallback: str | None, family: str | None) -> str | None:
    return "causal" if fallback is not None and family == "full" else fallback


def _is_verify(line: Discard, window: int | None) -> bool:
    """Whether lengths alone say so: `m = W - 1 + q` columns, and more keys than any other ring returns."""
    if line.kind in PROMPT or window is None or line.m < window + 1:
        return False
    q = line.m - window + 1
    return line.q in (None, q) and line.k - q >= window


def _queries(line: Discard) -> int | None:
    """Query length: printed, or the mask's own where that is the piece, padded or not, built at offset 0."""
    if line.q is not None:
        return line.q
    if line.offset is None or line.total is None:
        return None
    due = _due(line)
    if line.m in (due, _tiles(due)) or line.k - line.m == line.offset:
        return line.m
    return None


def _due(line: Discard) -> int:
    """Tokens of the piece: what is left of the prompt, and no more than a chunk."""
    assert line.offset is not None
    assert line.total is not None
    left = max(line.total - line.offset, 0)
    return min(left, line.chunk) if line.chunk else left


def _tiles(tokens: int) -> int:
    return -(-tokens // TILE) * TILE


def _lay_row(line: Discard, step: Step, q: int | None) -> None:
    """The piece as a row; a chunk line may have told its length already."""
    row = step.rows[0] if step.rows else Row(seq=line.seq, offset=line.offset)
    tokens = row.tokens
    if tokens is None and line.total is not None:
        due = _due(line)
        tokens = due if q is None or due <= q else q
        why = "total - offset" if line.total - (line.offset or 0) == tokens else "the chunk size"
        step.infer("rows.tokens", f"{why} = {tokens}")
    padded = q if q is not None and tokens is not None and tokens < q == _tiles(tokens) else None
    if padded is not None:
        step.infer("rows.padded", f"{q} queries are {tokens} tokens padded to {TILE}")
    if q is not None and line.q is None:
        step.infer("attention.q", f"mask_len {line.m} is the piece, built at kv offset 0")
    row = filled(row, total=line.total, tokens=tokens)
    step.rows = [structs.replace(row, padded=padded)]
