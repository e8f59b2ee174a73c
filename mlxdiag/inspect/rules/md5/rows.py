"""MD502 to MD504: rows of a batch and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Row


class RowMetadataLength(Rule):
    """A per-row vector (offsets, left padding, lengths, positions) has not one entry per row.

    Rows join and leave a batch; every vector must be filtered and extended with the keys. One that is
    forgotten crashes at the next step, or silently belongs to another row.

    What to do: filter and extend all per-row state in one place.

    Seen in: Blaizzy/mlx-vlm#1889, #1083; ml-explore/mlx-lm#1139; waybarrios/vllm-mlx#49.
    """

    code = "MD502"
    name = "row-metadata-length"
    absorbs = ("MD901", "MD306")
    fires = (
        """
steps:
- {phase: filter, rows: [{seq: a}, {seq: b}], attention: [{family: full, cache: batch, vectors: {offset: 2,
   left_padding: 3}}]}
""",
        """
steps:
- {phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1}], attention: [{family: full, cache: batch,
   offset: [4, 4, 9], q: 1, vectors: {left_padding: 2}}]}
""",
    )
    quiet = (
        """
steps:
- {phase: filter, rows: [{seq: a}, {seq: b}], attention: [{family: full, cache: batch, vectors: {offset: 2,
   left_padding: 2}}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        rows = len(call.entry.rows or ())
        if not rows:
            return
        a = call.attention
        lengths = dict(a.vectors or {})
        for name in ("offset", "k", "rope"):
            value = getattr(a, name)
            if isinstance(value, list):
                lengths.setdefault(name, len(value))
        wrong = {name: length for name, length in lengths.items() if length != rows}
        if wrong:
            said = ", ".join(f"{name} has {length}" for name, length in sorted(wrong.items()))
            yield self.found(f"the batch has {rows} rows, but {said}", call=call, rows=rows, lengths=wrong)


class IdleRowSampled(Rule):
    """A row that was given no tokens in this step still got one sampled.

    Its logits are those of padding or of another row. The usual cause is a slot that stays in the batch after
    its row has finished.

    What to do: sample only rows that were scheduled.

    Seen in: scouzi1966/maclocal-api#140.
    """

    code = "MD503"
    name = "idle-row-sampled"
    rests_on = "run"
    fires = (
        """
steps:
- {phase: decode, rows: [{seq: a, scheduled: 1, tokens: 1, emitted: 1}, {seq: b, scheduled: 0, emitted: 1}]}
""",
    )
    quiet = (
        """
steps:
- {phase: decode, rows: [{seq: a, scheduled: 1, tokens: 1, emitted: 1}, {seq: b, scheduled: 0, emitted: 0}]}
""",
        # Not recorded how many were scheduled.
        """
steps:
- {phase: decode, rows: [{seq: a, tokens: 1, emitted: 1}, {seq: b, emitted: 1}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        for index, row in enumerate(entry.rows or ()):
            if row.scheduled == 0 and row.emitted:
                yield self.found(
                    f"row {index} had no token scheduled but emitted {row.emitted}",
                    step=entry.step,
                    seq=row.seq,
                    row=index,
                    emitted=row.emitted,
                )


class AllPaddingChunk(Rule):
    """The whole chunk of a row is padding.

    Co-batched prompts that differ by more than a chunk give the short ones chunks without a real token.
    Attention layers survive that if the mask does (every query of the row is padding). A recurrent layer does
    not: its state advances over padding unless lengths or a padding mask reach it.

    What to do: skip such rows, or hand their lengths to the recurrent layers.

    Seen in: Blaizzy/mlx-vlm#1558, #1346; ml-explore/mlx-lm#1736.
    """

    code = "MD504"
    name = "all-padding-chunk"
    severity = "warning"
    fires = (
        """
steps:
- {rows: [{seq: a, tokens: 512}, {seq: b, tokens: 0, padded: 512}]}
""",
        # The row's positions are still below zero after the chunk, and no padding mask reaches the state.
        """
model: {layers: {state: {attention: recurrent}}}
steps:
- {rows: [{seq: a}, {seq: b, left_padding: 700}], attention: [{family: state, offset: [0, -700], q: 512,
   mask: null}]}
""",
    )
    quiet = (
        """
steps:
- {rows: [{seq: a, tokens: 512}, {seq: b, tokens: 12, padded: 512}]}
""",
        # An idle row is not fed at all.
        """
steps:
- {phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 0}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.kind not in FORWARD_PHASES:
            return
        calls = entry.attention or []
        for index, row in enumerate(entry.rows or ()):
            if not (_fed_padding_only(row) or any(_below_zero(call, index) for call in calls)):
                continue
            exposed = [call.family for call in calls if _exposed(call, run)]
            tail = (
                f"; nothing tells the recurrent layers ({', '.join(map(str, exposed))}) so" if exposed else ""
            )
            yield self.found(
                f"every token of row {index} in this chunk is padding{tail}",
                severity="error" if exposed else "warning",
                step=entry.step,
                seq=row.seq,
                row=index,
                recurrent=exposed or None,
            )


def _fed_padding_only(row: Row) -> bool:
    return row.tokens == 0 and (row.padded or 0) > 0


def _below_zero(call: Attention, index: int) -> bool:
    """The row's position is still negative, or zero, after the call."""
    offset = call.offset
    return (
        isinstance(offset, list)
        and index < len(offset)
        and call.q is not None
        and offset[index] < 0
        and offset[index] + call.q <= 0
    )


def _exposed(call: Attention, run: Run) -> bool:
    """A recurrent layer that is known to get neither a padding mask nor lengths."""
    if run.facts(call.family).kind != "recurrent" and call.cache != "recurrent":
        return False
    return call.mask is not UNSET and call.mask is None and "lengths" not in (call.vectors or {})
