"""MD401: NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry, Output, Row

TEXTS = (
    "not JSON compliant",
    "probability tensor contains",
    "no tokens to sample from",
    "NaN in the logits",
)
"""What engines print when they meet a NaN (starlette, torch, ollama, SGLang)."""


class NonFinite(Rule):
    """NaN or infinity in hidden states or logits, or a chosen generated token without a finite
    log-probability.

    Null, "nan" and missing are three things: missing is not observed; a null on a prompt's first token is
    legal, and so is -inf among the alternatives under a grammar or top-k. A null or NaN of a token that was
    *chosen* is neither.

    What to do: look at the first step that shows it. With MD107 or MD301 at the same step the mask is the
    cause; with clean shapes suspect the number format, the weights or a kernel, and say so: "degenerate
    output, no structural fault in this trace".

    Seen in: lablup/mlxcel#418; Blaizzy/mlx-vlm#250; vllm-project/vllm#13035, #30887; sgl-project/sglang#1571;
    Pushkinist/rMLX#346; jundot/omlx#3777.
    """

    code = "MD401"
    name = "non-finite"
    rests_on = "run"
    absorbs = ("MD402", "MD603", "MD906")
    fires = (
        """
steps:
- {step: 3, phase: decode, rows: [{offset: 1511, tokens: 1}], output: [{nan: 262208}]}
""",
        """
steps:
- {step: 3, phase: decode, rows: [{offset: 9, tokens: 1, emitted: 1, logprob: null}]}
""",
        """
steps:
- {step: 3, phase: decode, rows: [{offset: 9, tokens: 1, emitted: 1, logprob: nan}]}
""",
        """
steps:
- {error: {text: "Detected errors during sampling! NaN in the logits."}}
""",
    )
    quiet = (
        # A prompt token without a log-probability: nothing was generated.
        """
steps:
- {step: 0, phase: prefill, rows: [{offset: 0, tokens: 8, logprob: null}]}
""",
        """
steps:
- {step: 3, phase: decode, rows: [{offset: 9, tokens: 1, emitted: 1, logprob: -0.25}],
   output: [{nan: 0, inf: 0}]}
""",
        # Not recorded at all.
        """
steps:
- {step: 3, phase: decode, rows: [{offset: 9, tokens: 1, emitted: 1}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        rows = entry.rows or []
        for index, output in enumerate(entry.output or ()):
            row = rows[index] if index < len(rows) else Row()
            yield from self._of_output(entry, output, row)
        for row in rows:
            if row.emitted and _lost(row.logprob):
                yield self._lost_logprob(entry, row.seq, row.logprob)
        text = (entry.error.text if entry.error else None) or ""
        for marker in TEXTS:
            if marker in text:
                yield self.found(f"the program says {marker!r}", step=entry.step, text=marker)

    def _of_output(self, entry: Entry, output: Output, row: Row) -> Iterator[Finding]:
        counts: dict[str, Any] = {"nan": output.nan or 0, "inf": output.inf or 0}
        if any(counts.values()):
            said = " and ".join(f"{count} {name}" for name, count in counts.items() if count)
            yield self.found(f"the logits hold {said}", step=entry.step, seq=row.seq, **counts)
        elif output.logprob is not UNSET and _lost(output.logprob) and row.emitted:
            yield self._lost_logprob(entry, row.seq, output.logprob)

    def _lost_logprob(self, entry: Entry, seq: str | None, value: object) -> Finding:
        said = "null" if value is None else "NaN"
        return self.found(
            f"the log-probability of a chosen token is {said}", step=entry.step, seq=seq, logprob=said
        )


def _lost(value: object) -> bool:
    """Null or NaN; absent and finite are neither, and -inf is not this rule's."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() in ("nan", "null", "none")
    return isinstance(value, float) and math.isnan(value)
