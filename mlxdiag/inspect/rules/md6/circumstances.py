"""MD607 and MD612: when answers go bad, which says where to look."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.tokens import BAD, Fact
from mlxdiag.traces.types import Entry


class OnsetAtEdge(Rule):
    """An answer went bad exactly where something else happened.

    The first bad token falls on the position where the window fills, on a chunk's edge, where another
    sequence joined, or right after a cache hit. No fault by itself, but it makes the other findings
    more likely.

    What to do: read it with the finding at the same token.

    Seen in: lablup/mlxcel#678; vllm#2064; llama.cpp#12357.
    """

    code = "MD607"
    name = "onset-at-edge"
    severity = "info"
    rests_on = "tokens"
    fires = (
        """\
model: {layers: {sliding: {attention: sliding, window: 64}}}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 60, total: 60, emitted: 4, classes: tttt}]}
- {phase: decode, rows: [{seq: a, offset: 60, tokens: 1, emitted: 4, classes: pppp}]}
""",
        """\
steps:
- {phase: decode, rows: [{seq: a, emitted: 3, classes: ttt}]}
- {phase: prefill, rows: [{seq: b, tokens: 9}]}
- {phase: decode, rows: [{seq: a, emitted: 4, classes: pppp}]}
""",
    )
    quiet = (
        """\
model: {layers: {sliding: {attention: sliding, window: 64}}}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 30, total: 30, emitted: 4, classes: tttt}]}
- {phase: decode, rows: [{seq: a, offset: 30, tokens: 1, emitted: 4, classes: pppp}]}
""",
        # At the edge, and healthy.
        """\
model: {layers: {sliding: {attention: sliding, window: 64}}}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 60, total: 60, emitted: 8, classes: tttttttt}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        yield from self._edges(run.sequences.streams.new, run)

    def on_end(self, run: Run) -> Iterator[Finding]:
        yield from self._edges(run.sequences.streams.ending(), run)

    def _edges(self, facts: list[Fact], run: Run) -> Iterator[Finding]:
        for fact in facts:
            if fact.kind not in BAD:
                continue
            where = _edge(fact, run)
            if where is not None:
                yield self.found(
                    f"the first bad token, generated token {fact.onset}, falls on {where}",
                    seq=fact.seq,
                    step=fact.step,
                    onset=fact.onset,
                )


def _edge(fact: Fact, run: Run) -> str | None:
    prompt = fact.prompt
    position = None if prompt is None else prompt + fact.onset
    layers = (run.model.layers if run.model is not None else None) or {}
    windows = {run.facts(name).window for name in layers} - {None}
    if position is not None and position in windows:
        return f"position {position}, where the window fills"
    chunk = run.scheduler.chunk
    if position and chunk and chunk > 1 and position % chunk == 0:
        return f"position {position}, an edge of chunks of {chunk}"
    if fact.onset > 0 and fact.onset in fact.joins:
        return "the step at which another sequence joined"
    if fact.onset == 0 and fact.adopted:
        return "the first token after a cache hit"
    return None


class OnlyUnderConcurrency(Rule):
    """Answers go bad only while other sequences are active; those that had the engine to themselves are
    good.

    That points at what rows share: padding, per-row metadata, merges, an idle row that is sampled.

    What to do: send the same requests one at a time, then two.

    Seen in: Blaizzy/mlx-vlm#1668; ml-explore/mlx-lm#965; vllm#15933; maclocal-api#140.
    """

    code = "MD612"
    name = "only-under-concurrency"
    severity = "info"
    rests_on = "tokens"
    fires = (
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 9, emitted: 6, classes: ttttte, finish: eos}]}
- {phase: prefill, rows: [{seq: b, offset: 0, tokens: 9, emitted: 1, classes: t}]}
- {phase: prefill, rows: [{seq: c, offset: 0, tokens: 9, emitted: 1, classes: t}]}
- {phase: decode, rows: [{seq: b, emitted: 4, classes: pppp}, {seq: c, emitted: 1, classes: t}]}
""",
    )
    quiet = (
        # Bad on its own as well.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 9, emitted: 6, classes: tppppp, finish: length}]}
- {phase: prefill, rows: [{seq: b, offset: 0, tokens: 9, emitted: 1, classes: t}]}
- {phase: prefill, rows: [{seq: c, offset: 0, tokens: 9, emitted: 1, classes: t}]}
- {phase: decode, rows: [{seq: b, emitted: 4, classes: pppp}, {seq: c, emitted: 1, classes: t}]}
""",
        # No answer was alone, so there is nothing to compare with.
        """\
steps:
- {phase: prefill, rows: [{seq: b, tokens: 9, emitted: 1, classes: t},
    {seq: c, tokens: 9, emitted: 1, classes: t}]}
- {phase: decode, rows: [{seq: b, emitted: 4, classes: pppp}, {seq: c, emitted: 1, classes: t}]}
""",
    )

    def on_end(self, run: Run) -> Iterator[Finding]:
        run.sequences.streams.ending()
        tally = run.sequences.streams.tally
        if tally.bad_together and tally.clean_alone and not tally.bad_alone:
            together = tally.bad_together + tally.clean_together
            yield self.found(
                f"{tally.bad_together} of {together} answers beside others went bad, none of the"
                f" {tally.clean_alone} that ran alone",
                **tally._asdict(),
            )
