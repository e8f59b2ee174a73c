"""MD202 and MD203: where a sequence is, by its layers, by its rotary encoding, and by what was fed."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequence import offset_at
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Row

BOUND = 4096
"""Sequences whose positions count columns, remembered."""


class LayersOutOfStep(Rule):
    """Layers of one sequence disagree about where it is.

    Every layer sees every token, so the logical offsets must be equal: one layer whose trim was
    refused, or whose cache was restored from another length, turns the whole answer. Lengths may differ
    (a window holds less); positions may not. Rows that are nothing but padding while a batch waits for
    its finalize have no position: a rotating batch cache has already turned their padding away, a plain
    one has not.

    What to do: look at the last trim, adoption or batch operation before the step; every layer must
    take part in it.

    Seen in: waybarrios/vllm-mlx#678; lablup/mlxcel#203; transformers#38156.
    """

    code = "MD202"
    name = "layers-out-of-step"
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {step: 9, rows: [{seq: a, tokens: 1}], attention: [{family: sliding, offset: 20, q: 1},
    {family: full, offset: 17, q: 1}]}
""",
    )
    quiet = (
        """\
steps:
- {rows: [{seq: a, tokens: 1}], attention: [{family: sliding, window: 8, offset: 20, q: 1,
    k: 8}, {family: full, offset: 20, q: 1, k: 21}]}
""",
        # The short row is padding throughout, and the batch is not finalized.
        """\
steps:
- {phase: chunk, rows: [{seq: a, tokens: 4}, {seq: b, tokens: 0, right_padding: 4}],
    attention: [{family: sliding, cache: batch_rotating, window: 64, offset: [8, 7], cursor: 8,
    q: 4, k: 12}, {family: full, cache: batch, offset: [8, 8], cursor: 8, q: 4, k: 12}]}
""",
        """\
steps:
- {rows: [{seq: a, tokens: 1}], attention: [{family: recurrent, cache: recurrent, offset: 0},
    {family: full, offset: 17, q: 1, k: 18}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if run.sequences.kind not in FORWARD_PHASES:
            return
        calls = attending(entry, run)
        if len(calls) < 2:
            return
        apart = []
        for index, row in enumerate(run.sequences.rows):
            if run.sequences.pad_only(index):
                continue
            offsets = {call.family or "?": offset_at(call, index) for call in calls}
            known = {family: offset for family, offset in offsets.items() if offset is not None}
            seen = {offset_at(call, index) for call in calls} - {None}
            if len(seen) > 1:
                apart.append((row.seq, known, sorted(s for s in seen if s is not None)))
        if apart:
            seq, known, seen_list = apart[0]
            yield self.found(
                f"layers hold the sequence at {_listed(seen_list)} at the same step",
                seq=seq if len(apart) == 1 else None,
                step=entry.step,
                offsets=known,
                sequences=[one[0] for one in apart[:8]],
            )


class PositionMismatch(Rule):
    """A token got a position that is not the one after the token before it.

    Two tests. The position given to the rotary encoding must be the offset before the call; on layers
    that borrow keys, the owner's offset before *its* update. And a row's next position is its last plus
    one, once every trim, rollback, adoption, finalize, merge and extract between is counted. Left
    padding starts below zero, and right padding ends with its finalize or its trim: neither is a
    mismatch. Nor are positions that count a row's left padding from its first column on: rotary encodings
    are relative.

    What to do: read the offset before the update, not after, and never from a layer that counts
    differently.

    Seen in: ml-explore/mlx-lm#1097, #1699; waybarrios/vllm-mlx#256; lablup/mlxcel#203;
    raullenchai/Rapid-MLX#1124.
    """

    code = "MD203"
    name = "position-mismatch"
    absorbs = ("MD402",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {rows: [{seq: a, offset: 8, tokens: 1}], attention: [{family: full, offset: 8, rope: 9, q: 1,
    k: 9}]}
""",
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}
- {phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}
- {phase: decode, rows: [{seq: a, offset: 10, tokens: 1}]}
""",
        # A loop that leaves the padding out of its positions at first, and counts it when it decodes.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: -2, tokens: 4}],
    attention: [{family: full, cache: batch, offset: [0, -2], rope: [0, -2], cursor: 0, q: 4, k: 4,
    mask: [2, 1, 4, 4], builder: padded}]}
- {phase: decode, rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 2, tokens: 1}],
    attention: [{family: full, cache: batch, offset: [4, 2], rope: 4, cursor: 4, q: 1, k: 5,
    mask: [2, 1, 1, 5], builder: padded}]}
""",
        # Padding that a log shows, left behind before the next chunk.
        """\
source: {importer: mlxcel}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 505, padded: 512}]}
- {phase: chunk, rows: [{seq: a, offset: 512, tokens: 100}]}
""",
        # The finalize was recorded, yet the padding still counts.
        """\
steps:
- {phase: prefill, rows: [{seq: a, tokens: 4}, {seq: b, tokens: 2, right_padding: 2}],
    attention: [{family: full, cache: batch, offset: [0, 0], cursor: 0, q: 4, k: 4}]}
- {phase: finalize, rows: [{seq: a}, {seq: b}]}
- {phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1}], attention: [{family: full,
    cache: batch, offset: [4, 4], cursor: 4, q: 1, k: 5, mask: [2, 1, 1, 5]}]}
""",
    )
    quiet = (
        # A layer that borrows its keys is given the owner's offset before the owner's update.
        """\
steps:
- {rows: [{seq: a, tokens: 1}], attention: [{family: full, offset: 8, rope: 8, q: 1, k: 9},
    {family: full, layers: [3], offset: 8, rope: 8, q: 1, k: 9}]}
""",
        """\
steps:
- {phase: prefill, rows: [{seq: a, tokens: 4}, {seq: b, tokens: 2, right_padding: 2}],
    attention: [{family: full, cache: batch, offset: [0, 0], cursor: 0, q: 4, k: 4}]}
- {phase: finalize, rows: [{seq: a}, {seq: b}]}
- {phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1}], attention: [{family: full,
    cache: batch, offset: [4, 2], cursor: 4, q: 1, k: 5, mask: [2, 1, 1, 5]}]}
""",
        # Left padding: positions start below zero.
        """\
steps:
- {phase: prefill, rows: [{seq: a, tokens: 4}, {seq: b, tokens: 2, left_padding: 2}],
    attention: [{family: full, cache: batch, offset: [0, -2], rope: [0, -2], cursor: 0, q: 4,
    k: 4, mask: [2, 1, 4, 4]}]}
- {phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1, left_padding: 2}],
    attention: [{family: full, cache: batch, offset: [4, 2], cursor: 4, q: 1, k: 5, mask: [2,
    1, 1, 5]}]}
""",
        # A loop that passes no positions: they count the columns, padding included, from the first one on.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: -2, tokens: 4}],
    attention: [{family: full, cache: batch, offset: [0, -2], rope: 0, cursor: 0, q: 4, k: 4,
    mask: [2, 1, 4, 4], builder: padded}]}
- {phase: decode, rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 2, tokens: 1}],
    attention: [{family: full, cache: batch, offset: [4, 2], rope: 4, cursor: 4, q: 1, k: 5,
    mask: [2, 1, 1, 5], builder: padded}]}
""",
        # Right padding stays in the cache, a mask hides it, and positions count the tokens alone.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: 0, tokens: 2,
    right_padding: 2}], attention: [{family: full, cache: dense, offset: 0, rope: 0, q: 4, k: 4,
    mask: [2, 1, 4, 4], builder: padded}]}
- {phase: decode, rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
    attention: [{family: full, cache: dense, offset: 4, rope: [4, 2], q: 1, k: 5, mask: [2, 1, 1, 5],
    builder: padded}]}
- {phase: decode, rows: [{seq: a, offset: 5, tokens: 1}, {seq: b, offset: 5, tokens: 1}],
    attention: [{family: full, cache: dense, offset: 5, rope: [5, 3], q: 1, k: 6, mask: [2, 1, 1, 6],
    builder: padded}]}
""",
        # The same without caches, where one offset stands for all rows.
        """\
scheduler: {cacheless: true}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: 0, tokens: 2,
    left_padding: 2}], attention: [{family: full, offset: 0, rope: [0, -2], q: 4, k: 4, mask:
    [2, 1, 4, 4]}]}
""",
        # A block of three of which one draft was accepted; its rollback is not recorded.
        """\
steps:
- {phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}
- {phase: verify, rows: [{seq: a, offset: 9, tokens: 3, drafted: 2, accepted: 1}]}
- {phase: verify, rows: [{seq: a, offset: 11, tokens: 3, drafted: 2, accepted: 2}]}
""",
        # A row that feeds nothing but padding: a model that takes one layer's position for all is off there.
        """\
steps:
- {phase: chunk, rows: [{seq: a, tokens: 3}, {seq: b, tokens: 0, right_padding: 3}], attention: [
    {family: full, cache: batch, offset: [8, 8], cursor: 8, rope: [8, 7], q: 3, k: 11}]}
- {phase: finalize, rows: [{seq: a}, {seq: b}]}
""",
        # A log that does not tell of every chunk.
        """\
source: {importer: mlxcel}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 512}]}
- {phase: chunk, rows: [{seq: a, offset: 1024, tokens: 512}]}
""",
        # The engine gave up its cache and prefilled again.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}
- {phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 9}]}
""",
    )

    def __init__(self) -> None:
        self._columns: dict[str | None, int] = {}
        """Left padding of sequences whose positions have counted it since their first forward."""

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if run.sequences.kind not in FORWARD_PHASES:
            return
        yield from self._rope(entry, run)
        sequences = run.sequences
        for row, state, seen in zip(sequences.rows, sequences.states, sequences.observed, strict=True):
            if state is None or seen is None or state.position is None:
                continue
            if state.pending or state.trim is not None or state.adopted is not None:
                continue
            if seen != state.position and seen not in (state.other or ()):
                if _unlogged(seen - state.position, row, run):
                    continue
                yield self.found(
                    f"the sequence goes on at {seen}, but its next token is number {state.position}",
                    seq=row.seq,
                    step=entry.step,
                    offset=seen,
                    expected=state.position,
                )

    def _rope(self, entry: Entry, run: Run) -> Iterator[Finding]:
        for call in attending(entry, run):
            for index, row in enumerate(run.sequences.rows):
                if row.tokens == 0:
                    continue  # nothing but padding, which has no position
                given = (
                    call.rope[index] if isinstance(call.rope, list) and index < len(call.rope) else call.rope
                )
                held = offset_at(call, index)
                if held is None:
                    held = run.sequences.observed[index] if call.offset is None else None
                if given is None or isinstance(given, list) or held is None:
                    continue
                state = run.sequences.states[index]
                # Right padding that stays in the cache, hidden by a mask, is none of the positions.
                pads = state.pads if state is not None and state.pending else 0
                if given == held - pads:
                    continue
                if held < 0 and given == 0:
                    if len(self._columns) >= BOUND:
                        self._columns.clear()
                    self._columns[row.seq] = -held
                if given - held == self._columns.get(row.seq):
                    continue  # columns are counted throughout
                left = row.left_padding or 0
                if left and not isinstance(call.offset, list) and given == held - left:
                    continue  # one offset for all rows counts columns, and so their padding
                yield self.found(
                    f"the rotary encoding was given position {given} where the cache holds"
                    f" {held - pads} tokens" + (f" and {pads} of padding" if pads else ""),
                    seq=row.seq if len(run.sequences.rows) == 1 else None,
                    step=entry.step,
                    family=call.family,
                    rope=given,
                    offset=held,
                    row=index,
                    layers=call.layers,
                )
                break


def _unlogged(gap: int, row: Row, run: Run) -> bool:
    """Whether whole chunks are likely missing from a log: one that is cut, or tells of a few steps only.

    Padding that was left behind is shorter than a chunk.
    """
    if "importer" not in (run.header.source or {}) or run.sequences.kind not in ("prefill", "chunk"):
        return False
    chunk = (run.header.scheduler.chunk if run.header.scheduler else None) or row.tokens or 0
    return 0 < chunk <= gap


def attending(entry: Entry, run: Run) -> list[Attention]:
    """Calls of layers that have positions; recurrent layers have none."""
    return [
        call
        for call in entry.attention or ()
        if call.cache != "recurrent" and run.facts(call.family).kind != "recurrent"
    ]


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values[:-1])) + f" and {values[-1]}"
