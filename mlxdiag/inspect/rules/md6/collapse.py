"""MD601, MD602, MD603 and MD606: one kind of token that floods an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.tokens import Fact
from mlxdiag.traces.types import Entry


class TokenRule(Rule):
    """A rule on facts of the token streams; `kinds` are those it tells."""

    rests_on = "tokens"
    kinds: ClassVar[tuple[str, ...]] = ()

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        for fact in run.sequences.streams.new:
            if fact.kind in self.kinds:
                yield self.tell(fact)

    def on_end(self, run: Run) -> Iterator[Finding]:
        for fact in run.sequences.streams.ending():
            if fact.kind in self.kinds:
                yield self.tell(fact)

    def tell(self, fact: Fact) -> Finding:
        """The finding for one fact."""
        evidence = {"onset": fact.onset, **fact.evidence}
        return self.found(self.message(fact), seq=fact.seq, step=fact.step, **evidence)

    def message(self, fact: Fact) -> str:
        """One sentence with the numbers in it."""
        raise NotImplementedError


class ReservedCollapse(TokenRule):
    """The answer turns into reserved tokens, such as `<unused2115>`.

    Three reserved ids, or two different ones, within 16 tokens. Ids that the checkpoint registers as
    control are not counted: some fine-tunes give `<unusedN>` slots a role, so go by the checkpoint,
    never by the name. One slot at the start of a thought and another at its end, far apart, are markers
    and no collapse.

    What to do: look for the structural finding named as its cause; without one, compare dtype, weights
    and template.

    Seen in: lablup/mlxcel#885; lmstudio-bug-tracker#520; llama.cpp#12433; ollama#17459;
    google-deepmind/gemma#622.
    """

    code = "MD601"
    name = "reserved-collapse"
    kinds = ("reserved",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 8, classes: ttrtrttr, ids: [1, 2, 7, 3, 7, 1, 2,
    7]}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 5, classes: trtrt, ids: [1, 7, 3, 8, 1]}]}
""",
    )
    quiet = (
        # Markers of a thought, far apart.
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 24, classes: rttttttttttttttttttttttr}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 4, classes: rttt, ids: [7, 1, 2, 3]}]}
""",
        # The checkpoint registers these slots as control.
        """\
ids: raw
model: {tokens: {reserved: [[6, 104]], control: [100, 101]}}
steps:
- {phase: decode, rows: [{seq: a, emitted: 6, classes: rtrrtr, ids: [100, 900, 101, 100, 901,
    101]}]}
""",
    )

    def message(self, fact: Fact) -> str:
        e = fact.evidence
        different = f"{e['distinct']} different" if e["distinct"] == e["reserved"] else str(e["reserved"])
        return f"{different} reserved tokens within {e['span']}, {_since(fact)}"


class PadRun(TokenRule):
    """The answer is padding: four pads in a row before the row has finished.

    The classic end of a prefill whose early queries saw no key: NaN, then id 0. Batch runners also emit
    pads for a row that has finished, and many tokenizers use one id for pad and EOS; neither counts.

    What to do: look for queries without keys in the prefill (MD107, MD301), then for overflow in fp16.

    Seen in: lablup/mlxcel#401, #413, #678; Blaizzy/mlx-vlm#250; llama.cpp#8542; vllm#39392.
    """

    code = "MD602"
    name = "pad-run"
    kinds = ("pads",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 5, classes: tpppp}]}
""",
        """\
ids: raw
model: {tokens: {pad: 0, eos: [1]}}
steps:
- {phase: decode, rows: [{seq: a, emitted: 4, ids: [0, 0, 0, 0]}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 6, classes: tpppet}]}
""",
        # The row has ended; what follows fills the batch.
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 8, classes: tteppppp}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 1, classes: t, finish: length}, {seq: b, emitted: 1,
    classes: t}]}
- {phase: decode, rows: [{seq: a, emitted: 5, classes: ppppp}, {seq: b, emitted: 1,
    classes: t}]}
""",
        # One id for pad and EOS.
        """\
model: {tokens: {pad: 2, eos: [2]}}
steps:
- {phase: decode, rows: [{seq: a, emitted: 6, classes: tppppp}]}
""",
    )

    def message(self, fact: Fact) -> str:
        return f"{fact.evidence['run']} pads in a row before the answer ended, {_since(fact)}"


class ZeroArgmaxRun(TokenRule):
    """The answer ends in token id 0, eight times or more.

    An argmax over equal or non-finite logits is id 0, whatever that token is; in many vocabularies it
    is `!`. From the first token on, the fault is in the prefill; from the second, in the decode; later,
    something spoiled the state on the way. NaN is only said where it was seen: a hidden state of zeros
    gives id 0 too. Exclamation marks that other text follows are text.

    What to do: ask for log-probabilities: null or NaN settles it.

    Seen in: ml-explore/mlx-lm#113; vllm#13035, #29539, #44850; jundot/omlx#2255, #3777;
    paiml/aprender#2753.
    """

    code = "MD603"
    name = "zero-argmax-run"
    kinds = ("zeros",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 8, classes: "00000000"}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 12, classes: ttt00000000e, finish: eos}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 12, classes: t000000000tt}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 8, classes: t0000000}]}
""",
    )

    def message(self, fact: Fact) -> str:
        where = {0: "the prefill is at fault", 1: "the decode is at fault"}
        side = where.get(fact.onset, "something spoiled the state on the way")
        nan = "; non-finite numbers were seen" if fact.evidence["nonfinite"] else ""
        run = fact.evidence["run"]
        return f"the answer ends in {run} times id 0, {_since(fact)}: {side}{nan}"


class ControlFlood(TokenRule):
    """One control token, eight times within 16 tokens.

    Control tokens of chat and tool formats are frequent and legal, with text between them; a flood of
    one is not.

    What to do: check the template and the stop ids, then the prefill.

    Seen in: ollama#8786; llama.cpp#12433.
    """

    code = "MD606"
    name = "control-flood"
    kinds = ("flood",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 9, classes: tcccccccc, ids: [1, 5, 5, 5, 5, 5, 5, 5,
    5]}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 8, classes: cccccccc, ids: [5, 6, 5, 6, 5, 6, 7,
    8]}]}
""",
        # A channel marker before each message.
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 32, classes: ctttctttctttctttctttctttctttcttt}]}
""",
    )

    def message(self, fact: Fact) -> str:
        count = fact.evidence["count"]
        return f"one control token {count} times within {fact.evidence['span']}, {_since(fact)}"


def _since(fact: Fact) -> str:
    return f"from generated token {fact.onset} on"
