"""What mlxcel's lines about discarded masks prove, once the whole log is read.

The same words stand for a prompt piece whose mask was built for another offset, and for a speculative verify
whose mask is capped while the ring still holds uncompacted keys, which is harmless. The span that the line
was printed in tells them apart, or the window; where neither is known nothing is decided.

Facts used: a ring returns `min(offset, W - 1) + q` keys, a dense cache `offset + q`; a buffered ring
`live + q`, and its own mask has `min(live, W - 1) + q` columns; every layer is handed the same mask.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from mlxdiag.traces.importers.draft import Draft, Step, filled
from mlxdiag.traces.importers.mlxcel_discard import TILE, VERIFY, WHY, Discard, tiles
from mlxdiag.traces.types import Attention, Mask, Row


class _Pending(msgspec.Struct, frozen=True):
    line: Discard
    step: Step
    fallback: str | None


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
            return
        self._pending[key] = _Pending(line, step or self.draft.step("note"), line.fallback())
        window = _own_window(line)
        if window is not None:
            self.draft.windows[window] = self.draft.windows.get(window, 0) + 1
            if line.kind == VERIFY:
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
        if line.of_prompt():
            self._piece(pending, window)
        elif line.is_verify(window):
            self._verify(pending, window)
        elif line.kind is None and window is not None and line.m < window and line.k - line.m == window - 1:
            self._lone(pending)
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
        q = line.queries()
        _lay_row(line, step, q)
        if q is None:
            calls = [self._call(pending, None, None, (line.m,))]
        else:
            calls = [self._call(pending, kind, q, (q, line.m)) for kind in self._kinds(line, q, window, step)]
            self._hand_in(line, q, step)
        step.calls = [*step.calls, *(call for call in calls if call not in step.calls)]

    def _kinds(self, line: Discard, q: int, window: int | None, step: Step) -> list[str | None]:
        """The kinds of layers that return so many keys: at least one of them printed the line."""
        assert line.offset is not None
        kept = line.k - q
        window = window if window is not None else _own_window(line)
        if kept == line.offset:
            step.infer("attention.family", f"{kept} keys before the piece are all of them")
            if window is None or kept >= window:
                return ["full"]
            step.note(f"{line.k} keys: below the window, sliding layers return the same")
            return ["full", "sliding"]
        if kept < line.offset and kept + 1 == window:
            step.infer("attention.family", f"{kept} keys of {line.offset} are left: a full ring")
            return ["sliding"]
        return [None]

    def _call(self, pending: _Pending, kind: str | None, q: int | None, mask: tuple[int, ...]) -> Attention:
        """A call of the layers of this kind, by their name in the config; its fallback is theirs."""
        line, fallback = pending.line, pending.fallback
        if fallback is not None:
            pending.step.infer("attention.fallback", WHY[fallback])
        own = kind == "sliding" and self.draft.model is None
        return Attention(
            family=None if kind is None else self.draft.family(kind),
            window=(self.draft.window() or _own_window(line)) if own else None,
            q=q,
            k=line.k,
            mask=mask,
            fate="discarded",
            fallback="causal" if fallback is not None and kind == "full" else fallback,
        )

    def _hand_in(self, line: Discard, q: int, step: Step) -> None:
        """The scheduler's mask, which is the same for every layer."""
        if step.mask is not None:
            return
        builder = "padded" if step.rows and step.rows[0].padded else "causal"
        step.mask = Mask(shape=(q, line.m), offset=line.m - q, source="scheduler", builder=builder)
        step.infer("mask.offset", f"mask_len {line.m} less {q} queries")
        step.infer("mask.builder", "of the scheduler, which knows no window")

    def _verify(self, pending: _Pending, window: int | None) -> None:
        line, step = pending.line, pending.step
        q = line.q if line.q is not None else line.m - window + 1 if window is not None else None
        if q is None or not 1 < q < line.m:
            step.note(f"undecided: a verify of unknown length dropped a mask of {line.m} for {line.k} keys")
            return
        live = line.k - q
        step.phase = "verify"
        step.rows = [Row(seq=line.seq, offset=self._place(line.seq, live, q), tokens=q)]
        call = self._call(pending, "sliding", q, (q, line.m))
        slack, bound = max(self._slack, q), line.m - q + 1
        step.calls = [structs.replace(call, cache="buffered", window=bound, slack=slack, live=live)]
        step.infer("attention.cache", "only a buffered ring returns more keys than its own mask is capped at")
        step.infer("attention.window", f"mask_len {line.m} = W - 1 + {q}")
        step.infer("attention.slack", "the ring was seen to hold so many keys beyond its window")
        step.infer("attention.live", f"key_len {line.k} less {q} queries")
        step.infer("rows.offset", "what the ring holds, as if nothing had been compacted")
        if line.q is None:
            step.infer("attention.q", "mask_len = W - 1 + q with the config's window")

    def _place(self, seq: str | None, live: int, q: int) -> int | None:
        """Where a verify stands: what the ring holds, or on from the round before by what it holds more."""
        before = self._live.get(seq)
        offset = live if before is None else None
        if before is not None and 0 < live - before[1] <= q:
            offset = before[0] + live - before[1]
        if offset is not None:
            self._live[seq] = (offset, live)
        return offset

    def _lone(self, pending: _Pending) -> None:
        """Without a span: `W - 1` keys besides the mask's own columns, so the mask was built at offset 0."""
        line, step = pending.line, pending.step
        step.phase = "chunk"
        step.rows = [Row(seq=line.seq, tokens=line.m)]
        step.mask = Mask(shape=(line.m, line.m), offset=0, source="scheduler", builder="causal")
        step.calls = [self._call(pending, "sliding", line.m, (line.m, line.m))]
        why = f"key_len - mask_len = {line.k - line.m} = W - 1: a full ring, and a mask built at offset 0"
        for field in ("attention.family", "attention.q", "mask.offset", "rows.tokens"):
            step.infer(field, why)


def _own_window(line: Discard) -> int | None:
    """The window that a line shows by itself: of a verify's capped mask, or of a full ring.

    Keys that are fewer than the offset may also be those of a key cap, which is an even number; a full ring
    holds `W - 1` before the piece, and windows are even.
    """
    if line.kind == VERIFY:
        return line.m - line.q + 1 if line.q is not None and line.m > line.q else None
    q = line.queries()
    if not line.of_prompt() or q is None or line.offset is None:
        return None
    kept = line.k - q
    return kept + 1 if 0 < kept < line.offset and kept % 2 else None


def _lay_row(line: Discard, step: Step, q: int | None) -> None:
    """The piece as a row; a chunk line may have told its length already."""
    row = step.rows[0] if step.rows else Row(seq=line.seq, offset=line.offset)
    tokens, due = row.tokens, line.due()
    if tokens is None and due is not None:
        tokens = due if q is None or due <= q else q
        why = "total - offset" if (line.total or 0) - (line.offset or 0) == tokens else "the chunk"
        step.infer("rows.tokens", f"{why} = {tokens}")
    padded = q if q is not None and tokens is not None and tokens < q == tiles(tokens) else None
    if padded is not None:
        step.infer("rows.padded", f"{q} queries are {tokens} tokens padded to {TILE}")
    if q is not None and line.q is None:
        step.infer("attention.q", f"mask_len {line.m} is the piece, built at kv offset 0")
    step.rows = [structs.replace(filled(row, total=line.total, tokens=tokens), padded=padded)]
