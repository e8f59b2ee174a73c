"""MD604, MD605 and MD608: answers that repeat themselves."""

from __future__ import annotations

from mlxdiag.inspect.rules.md6.collapse import TokenRule
from mlxdiag.inspect.tokens import Fact

_TEXT = ", ".join(map(str, range(30)))
_LONG = ", ".join(map(str, [*range(30), *range(30), *range(30)]))
_SHORT = ", ".join(map(str, [90, 91, *([1, 2, 3, 4] * 12)]))


def _answer(ids: str) -> str:
    count = ids.count(",") + 1
    return f"steps: [{{phase: decode, rows: [{{seq: a, emitted: {count}, ids: [{ids}]}}]}}]\n"


class ShortCycle(TokenRule):
    """The answer ends in a loop of at most 20 tokens.

    Exact and adjacent: at least four copies and 48 tokens of one primitive period, at the very end.
    Some loops are what was asked for (a dot leader, a grid of zeros, base64, one emoji of three byte
    tokens again and again), and some come from the weights alone, so this is a warning.

    What to do: run the same prompt in one pass: weights-level loops repeat there, structural ones do
    not.

    Seen in: lablup/mlxcel#432; Blaizzy/mlx-vlm#1083; jundot/omlx#567; vllm#39827.
    """

    code = "MD604"
    name = "short-cycle"
    severity = "warning"
    kinds = ("short-cycle",)
    fires = (_answer(_SHORT), _answer(", ".join(["7"] * 48)))
    quiet = (
        # Eleven copies of four tokens are 44: too few.
        _answer(", ".join(map(str, [90, 91, *([1, 2, 3, 4] * 11)]))),
        # Normal text follows.
        _answer(f"{_SHORT}, {_TEXT}"),
        # Nearly a loop.
        _answer(f"{_SHORT}, 9, 2, 3, 4"),
    )

    def message(self, fact: Fact) -> str:
        return _loop(fact)


class LongCycle(TokenRule):
    """The answer ends in a loop of 21 to 1024 tokens, three times over.

    The period is the primitive one: thirty copies of four tokens are a short loop, never a long one of 24.

    What to do: compare with the prompt: rehearsed text and tables repeat legally.

    Seen in: waybarrios/vllm-mlx#723; llama.cpp#26039.
    """

    code = "MD605"
    name = "long-cycle"
    severity = "warning"
    kinds = ("long-cycle",)
    fires = (_answer(_LONG),)
    quiet = (
        _answer(f"{_TEXT}, {_TEXT}"),
        # A short loop, whatever its multiples.
        _answer(", ".join(map(str, [1, 2, 3, 4] * 30))),
    )

    def message(self, fact: Fact) -> str:
        return _loop(fact)


class EngineLoopGuard(TokenRule):
    """The engine's own repetition limit cut the answer.

    What to do: nothing by itself; read the findings beside it.

    Seen in: lablup/mlxcel#433; ollama#14523.
    """

    code = "MD608"
    name = "engine-loop-guard"
    severity = "info"
    kinds = ("guard",)
    fires = ("steps: [{phase: decode, rows: [{seq: a, emitted: 1, classes: t, finish: repetition}]}]\n",)
    quiet = ("steps: [{phase: decode, rows: [{seq: a, emitted: 1, classes: t, finish: length}]}]\n",)

    def message(self, fact: Fact) -> str:
        return f"the engine's repetition limit ended the answer after {fact.evidence['generated']} tokens"


def _loop(fact: Fact) -> str:
    e = fact.evidence
    length = "one token" if e["period"] == 1 else f"{e['period']} tokens"
    times = f"{e['repeats']} times a loop of {length}"
    return f"the answer ends in {times}, from generated token {fact.onset} on"
