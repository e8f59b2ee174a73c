"""MD906: an error that says nothing of shapes."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect import crash
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Row

LONGEST = 160


class RecordedError(Rule):
    """A step ended in an error of the program that is no shape error (MD901) and no clean refusal (MD904).

    Attention may be right: memory ran out, a prompt cache was handed on empty, a kernel is missing. The
    request of that step got no answer all the same, and others of the process may have been lost with it.

    What to do: read the text; the entries before it say what the engine was about to do.

    Seen in: ml-explore/mlx-lm#754, #798 (an exact prompt-cache hit), #1035; lmstudio-ai/mlx-engine#310.
    """

    code = "MD906"
    name = "recorded-error"
    rests_on = "run"
    fires = (
        """
steps:
- {phase: adopt, rows: [{seq: a, matched: 6, entry: 6, restored: 6}], error: {text: "empty prompt"}}
""",
        # A cache that still holds a longer request leaves nothing of the new prompt to feed.
        """
steps:
- {phase: prefill, rows: [{seq: a, offset: 54, tokens: 0}], error: {text: "RuntimeError: cannot reshape tensor
    of 0 elements"}}
""",
    )
    quiet = (
        """
steps:
- {rows: [{seq: a, offset: 0, tokens: 4}]}
""",
        # A shape error is MD901's.
        """
steps:
- {error: {text: "[broadcast_shapes] Shapes (298,128) and (1,64,298,298) cannot be broadcast."}}
""",
        # A refusal that says so is MD904's.
        """
steps:
- {error: {text: "NotImplementedError: RotatingKVCache Quantization NYI"}}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        error = entry.error
        if error is None or not error.text or "Quantization NYI" in error.text:
            return
        if crash.read(error.text, error.shapes or (), f"{error.where or ''} {entry.phase or ''}") is not None:
            return
        rows = entry.rows or []
        text = " ".join(error.text.split())
        yield self.found(
            f"the step ended in an error: {text if len(text) <= LONGEST else text[: LONGEST - 3] + '...'}",
            step=entry.step,
            seq=rows[0].seq if len(rows) == 1 else None,
            cause=_nothing_fed(rows, entry.kind),
        )


def _nothing_fed(rows: list[Row], kind: str) -> list[str]:
    """What a forward without a token means, where its cache is not empty."""
    held = max((row.offset or 0 for row in rows), default=0)
    if kind not in FORWARD_PHASES or not held or any(row.tokens != 0 or row.padded for row in rows):
        return []
    return [
        f"0 tokens were fed: the cache holds {held} tokens of an earlier request already, as many as the new"
        " prompt has or more, and only what lies behind them is fed (a cache that is used again for another"
        " prompt must be reset first)"
    ]
