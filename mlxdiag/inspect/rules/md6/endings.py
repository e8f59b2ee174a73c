"""MD609 and MD611: how an answer ended, or did not."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rules.md6.collapse import TokenRule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.tokens import Fact
from mlxdiag.traces.types import Entry


class EosNotInStopSet(TokenRule):
    """The engine does not stop at an end token of the model.

    Either an EOS id of the generation config is missing from the ids that the engine stops at, or a
    degenerate answer ran on to the length limit.

    What to do: give the engine every id of `eos_token_id` in generation_config.json.

    Seen in: waybarrios/vllm-mlx#256.
    """

    code = "MD609"
    name = "eos-not-in-stop-set"
    severity = "info"
    kinds = ("unstopped",)
    fires = (
        "model: {tokens: {eos: [1, 106], stop: [1]}}\nsteps: []\n",
        "steps: [{phase: decode, rows: [{seq: a, emitted: 8, classes: tppppppp, finish: length}]}]\n",
    )
    quiet = (
        "model: {tokens: {eos: [1, 106], stop: [106, 1, 50]}}\nsteps: []\n",
        "model: {tokens: {eos: [1, 106]}}\nsteps: []\n",
        "steps: [{phase: decode, rows: [{seq: a, emitted: 8, classes: tttttttt, finish: length}]}]\n",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        yield from super().on_entry(entry, run)
        tokens = entry.tokens
        if entry.phase != "model" or tokens is None or tokens.stop is None:
            return
        missing = sorted(set(tokens.eos or ()) - set(tokens.stop))
        if missing:
            names = ", ".join(map(str, missing))
            yield self.found(
                f"the engine does not stop at end-of-sequence id {names}", step=entry.step, missing=missing
            )

    def message(self, fact: Fact) -> str:
        return f"the degenerate answer ran on to the length limit of {fact.evidence['generated']} tokens"


class EmptyAfterHit(TokenRule):
    """An answer without a token, after its prompt went on from a stored prefix.

    The same prompt without the hit is the test: the usual cause is a prefix restored to another length.

    What to do: run the prompt cold; if the answer is there, look at the adopted length (MD205).

    Seen in: Blaizzy/mlx-vlm#1668; claude-code-local#46.
    """

    code = "MD611"
    name = "empty-after-hit"
    severity = "warning"
    kinds = ("empty",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: adopt, rows: [{seq: a, matched: 50, entry: 50, restored: 49}]}
- {phase: decode, rows: [{seq: a, offset: 49, tokens: 1, emitted: 1, classes: e, finish: eos}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: adopt, rows: [{seq: a, matched: 50, entry: 50, restored: 49}]}
- {phase: decode, rows: [{seq: a, offset: 49, tokens: 1, emitted: 1, classes: t}]}
- {phase: decode, rows: [{seq: a, offset: 50, tokens: 1, emitted: 1, classes: e, finish: eos}]}
""",
        # No hit: the model had nothing to say.
        "steps: [{phase: decode, rows: [{seq: a, tokens: 1, emitted: 1, classes: e, finish: eos}]}]\n",
        # The client went away.
        """\
steps:
- {phase: adopt, rows: [{seq: a, matched: 50, entry: 50, restored: 49}]}
- {phase: decode, rows: [{seq: a, offset: 49, tokens: 1, emitted: 0, finish: abort}]}
""",
    )

    def message(self, fact: Fact) -> str:
        return "the answer is empty, and its prompt went on from a stored prefix"
