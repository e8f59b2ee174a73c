"""MD206: padding that stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry


class PadsLeftInCache(Rule):
    """Padding that filled up the last chunk still counts as tokens of the sequence.

    At the first decode the offset must be what was adopted, plus the tokens fed since, minus the trims:
    2201 after a prompt of 2201, not 2208 because the last chunk was padded from 153 to 160. Otherwise
    every later token sits too far on, and attends to padding. The prompt's length is no measure:
    engines feed all but its last token first.

    Padding that stays may be hidden by a mask, as `generate` of transformers hides it; a first decode without
    any mask attends to it.

    What to do: trim the padding off every layer's cache after the last chunk, those that the model owns
    included.

    Seen in: lablup/mlxcel#1755.
    """

    code = "MD206"
    name = "pads-left-in-cache"
    absorbs = ("MD203", "MD304")
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {step: 5, phase: chunk, rows: [{seq: a, offset: 2048, tokens: 153, padded: 160, total: 2201}]}
- {step: 6, phase: decode, rows: [{seq: a, offset: 2208, tokens: 1}]}
""",
        # Right padding is still there, and nothing hides it from the first decode.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: 0, tokens: 2,
    right_padding: 2}], attention: [{family: full, cache: dense, offset: 0, q: 4, k: 4, mask: [2, 1, 4, 4]}]}
- {phase: decode, rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
    attention: [{family: full, cache: dense, offset: 4, q: 1, k: 5, mask: null}]}
""",
    )
    quiet = (
        # A mask hides the right padding that stays.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: 0, tokens: 2,
    right_padding: 2}], attention: [{family: full, cache: dense, offset: 0, q: 4, k: 4, mask: [2, 1, 4, 4]}]}
- {phase: decode, rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
    attention: [{family: full, cache: dense, offset: 4, q: 1, k: 5, mask: [2, 1, 1, 5]}]}
""",
        """\
steps:
- {step: 5, phase: chunk, rows: [{seq: a, offset: 2048, tokens: 153, padded: 160, total: 2201}]}
- {phase: trim, rows: [{seq: a, asked: 7, done: 7}]}
- {step: 6, phase: decode, rows: [{seq: a, offset: 2201, tokens: 1}]}
""",
        # prompt[:-1] first, then the last prompt token as a decode.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 99, total: 100}]}
- {phase: decode, rows: [{seq: a, offset: 99, tokens: 1}]}
""",
        # A finalize is pending.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}, {seq: b, offset: 0, tokens: 2,
    padded: 4, right_padding: 2}]}
- {phase: decode, rows: [{seq: b, offset: 4, tokens: 1}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        sequences = run.sequences
        for row, state, seen in zip(sequences.rows, sequences.states, sequences.observed, strict=True):
            if (
                state is None
                or seen is None
                or state.position is None
                or (row.phase or sequences.kind) != "decode"
            ):
                continue
            if state.pending and state.pads and not state.decoded and _bare(entry):
                yield self.found(
                    f"{state.pads} padding tokens stand behind the prompt, and no mask hides them from the"
                    " first decode",
                    seq=row.seq,
                    step=entry.step,
                    offset=seen,
                    padding=state.pads,
                )
            if state.decoded or state.pending or state.trim is not None or state.adopted is not None:
                continue
            if seen > state.position:
                extra = seen - state.position
                known = f", and {state.pads} padding tokens were never removed" if state.pads == extra else ""
                yield self.found(
                    f"the first decode is at {seen} after {state.position} real tokens:"
                    f" {extra} too many{known}",
                    seq=row.seq,
                    step=entry.step,
                    offset=seen,
                    expected=state.position,
                    padding=state.pads,
                )


def _bare(entry: Entry) -> bool:
    """A layer with positions is known to have had no mask at all."""
    return any(call.mask is None and call.cache != "recurrent" for call in entry.attention or [])
