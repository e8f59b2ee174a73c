"""MD904 and MD905: what the engine cannot do, and what it declined to do."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.facts import ROTATING
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run, is_model
from mlxdiag.traces.types import Entry


class UnsupportedCombination(Rule):
    """Quantised keys and values with a rotating cache or attention sinks; a ring no wider than its sinks + 1.

    Rotating caches cannot be quantised in mlx-lm (`RotatingKVCache Quantization NYI`), and the quantised
    attention kernel knows no sinks: the server starts, and its first request fails. A ring with
    `window <= keep + 1` has no room left for anything but the pinned tokens.

    What to do: quantise the full layers only, or leave `--kv-bits` off; choose a window well above `keep`.

    Seen in: ml-explore/mlx-lm#1573; lmstudio-ai/mlx-engine#148.
    """

    code = "MD904"
    name = "unsupported-combination"
    fires = (
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {phase: decode, rows: [{offset: 9, tokens: 1}], attention: [{family: sliding, cache: rotating, kv_bits: 8,
   k: 10}]}
""",
        # Known before the first request.
        """
scheduler: {kv_bits: 8}
model: {layers: {sliding: {attention: sliding, cache: rotating, window: 128, sinks: true}}}
steps: []
""",
        """
model: {layers: {sliding: {attention: sliding, cache: rotating, window: 4, keep: 4}}}
steps: []
""",
        """
steps:
- {error: {text: "NotImplementedError: RotatingKVCache Quantization NYI"}}
""",
    )
    quiet = (
        # Full layers may be quantised.
        """
scheduler: {kv_bits: 8}
model: {layers: {full: {attention: full, cache: quantized}}}
steps:
- {phase: decode, rows: [{offset: 9, tokens: 1}], attention: [{family: full, kv_bits: 8, k: 10}]}
""",
        """
model: {layers: {sliding: {attention: sliding, cache: rotating, window: 128, keep: 4}}}
steps: []
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        a = call.attention
        if a.kv_bits:
            reason = _unquantisable(call.cache, a.sinks if a.sinks is not None else call.facts.sinks)
            if reason:
                yield self.found(f"{a.kv_bits}-bit keys on {reason}", call=call, kv_bits=a.kv_bits)
        if call.cache in ROTATING and _no_room(call.bound, call.keep):
            yield self._narrow(call.family, call.bound, call.keep, call.entry.step)

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if is_model(entry):
            yield from self._of_model(entry, run)
        text = (entry.error.text if entry.error else None) or ""
        if "Quantization NYI" in text:
            yield self.found("the library refused to quantise this cache", step=entry.step, text=text[:200])

    def _of_model(self, entry: Entry, run: Run) -> Iterator[Finding]:
        bits = run.scheduler.kv_bits
        for family in entry.layers or {}:
            facts = run.facts(family)
            reason = _unquantisable(facts.cache, facts.sinks)
            if bits and reason:
                yield self.found(
                    f"{bits}-bit keys are asked for, and family {family} has {reason}",
                    kv_bits=bits,
                    family_of=family,
                )
            if facts.cache in ROTATING and _no_room(facts.window, facts.keep):
                yield self._narrow(family, facts.window, facts.keep, None)

    def _narrow(self, family: str | None, window: int | None, keep: int, step: int | None) -> Finding:
        return self.found(
            f"family {family}: a ring of {window} with {keep} pinned tokens holds nothing else",
            step=step,
            window=window,
            keep=keep,
            family_of=family,
        )


def _unquantisable(cache: str | None, sinks: bool | None) -> str | None:
    if cache in ROTATING:
        return f"a {cache} cache"
    return "attention sinks" if sinks else None


def _no_room(window: int | None, keep: int) -> bool:
    return window is not None and keep > 0 and window <= keep + 1


class GuardRefused(Rule):
    """The engine declined to reuse, trim or speculate, and did the work again. Slow, and right.

    Guards like "forcing full prompt re-processing" or "non_trimmable" keep a rolled ring from being reused.
    They explain long first tokens, never wrong ones.

    What to do: nothing for correctness. For speed, keep a snapshot from before the window was passed.

    Seen in: ggml-org/llama.cpp#14157; raullenchai/Rapid-MLX#2058; ml-explore/mlx-lm#980;
    lmstudio-ai/mlx-engine#177.
    """

    code = "MD905"
    name = "guard-refused"
    severity = "info"
    rests_on = "run"
    fires = (
        """
steps:
- {step: 4, phase: adopt, rows: [{seq: a, matched: 9, entry: 12}], refused: "not trimmable past the window"}
""",
    )
    quiet = (
        """
steps:
- {step: 4, phase: adopt, rows: [{seq: a, matched: 9, entry: 12, trimmed: 3, restored: 9}]}
- {step: 5, phase: prefill, rows: [{seq: a, offset: 9, tokens: 4}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.refused is not None:
            rows = entry.rows or []
            yield self.found(
                f"the engine declined ({entry.kind}): {entry.refused[:200]}",
                step=entry.step,
                seq=rows[0].seq if len(rows) == 1 else None,
            )
