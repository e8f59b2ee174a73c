"""MD208 and MD212: the class of a cache, against what it was and against what the config asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequence import cache_kinds
from mlxdiag.traces.types import Entry, Family

_JUDGED = ("save", "load", "adopt", "trim", "merge")
_WHOLE = ("save", "load", "adopt", "merge")
"""Events that concern every layer, so that their number can be compared."""
_BOUNDED = ("rotating", "batch_rotating", "buffered", "static_sliding", "chunked")
_LAYER_TYPES = {"full_attention": "full", "sliding_attention": "sliding", "chunked_attention": "chunked"}


class CacheKindChanged(Rule):
    """A cache came back as another class, or with another number of layers.

    A ring restored as a plain cache loses its order and its bound, a quantised one restored as plain is
    read as garbage. Batching, extracting and quantising change the class by design, and are not a
    change here.

    What to do: save the class beside the state, and rebuild exactly that class.

    Seen in: raullenchai/Rapid-MLX#1863; jundot/omlx#1943; lmstudio-ai/mlx-engine#310.
    """

    code = "MD208"
    name = "cache-kind-changed"
    fires = (
        """\
steps:
- {phase: save, rows: [{seq: a}], attention: [{family: sliding, cache: rotating},
    {family: full, cache: dense}]}
- {phase: load, rows: [{seq: b}], attention: [{family: sliding, cache: dense}, {family: full,
    cache: dense}]}
""",
        """\
steps:
- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: dense, layers: [0, 1, 2,
    3]}]}
- {phase: load, rows: [{seq: a}], attention: [{family: full, cache: dense, layers: [0, 1, 2]}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: save, rows: [{seq: a}], attention: [{family: sliding, cache: rotating},
    {family: full, cache: dense}]}
- {phase: merge, rows: [{seq: a}], attention: [{family: sliding, cache: batch_rotating},
    {family: full, cache: batch}]}
""",
        """\
steps:
- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: dense}]}
- {phase: quantize, rows: [{seq: a}], attention: [{family: full, cache: quantized, kv_bits: 8}]}
- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: quantized, kv_bits: 8}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        sequences = run.sequences
        if sequences.kind not in _JUDGED or entry.attention is None:
            return
        kinds, layers = cache_kinds(entry)
        for row, state in zip(sequences.rows, sequences.states, strict=True):
            if state is None:
                continue
            before, count = state.kinds, state.layers
            if not before and sequences.kind in ("load", "adopt"):
                # A new sequence takes over what another one saved.
                before, count = sequences.saved.get(entry.model, ({}, None))
            message = _changed(before, kinds)
            if (
                message is None
                and sequences.kind in _WHOLE
                and None not in (count, layers)
                and count != layers
            ):
                message = f"{count} layers became {layers}"
            if message is not None:
                severity = "info" if entry.refused is not None else "error"
                yield self.found(
                    message,
                    severity=severity,
                    seq=row.seq,
                    step=entry.step,
                    kinds={str(k): v for k, v in kinds.items()},
                )


def _changed(before: dict[str | None, str], after: dict[str | None, str]) -> str | None:
    for family, kind in after.items():
        if before.get(family, kind) != kind:
            return f"the {family} layers' {before[family]} cache became {kind}"
    return None


class LayersDifferFromConfig(Rule):
    """A layer does not have the window that the model's config gives it.

    A full layer with a bounded cache forgets what it must see; a sliding layer without a window, or
    with a ring smaller than its window, sees too much or too little. The config says which is which,
    never the cache's class. A key cap that the user asked for bounds every layer, and is not a
    difference; a ring larger than the window is right as long as a mask enforces the window, and only
    noted.

    What to do: build each layer's cache from its own entry in the config's layer types.

    Seen in: ggml-org/llama.cpp#15811; vllm-project/vllm#49795; pytorch/executorch#21635; cascadia#151.
    """

    code = "MD212"
    name = "layers-differ-from-config"
    fires = (
        """\
model: {layers: {full: {attention: full}}}
steps:
- {attention: [{family: full, cache: rotating, window: 512, offset: 600, q: 1, k: 512}]}
""",
        """\
model: {layers: {sliding: {attention: sliding, window: 1024}}}
steps:
- {attention: [{family: sliding, cache: rotating, window: 512, offset: 600, q: 1, k: 512}]}
""",
        """\
model: {config: {sliding_window: null}, layers: {sliding: {attention: sliding}}}
steps: []
""",
        """\
model: {config: {layer_types: [full_attention, sliding_attention]},
    layers: {sliding: {attention: sliding, window: 8, layers: [0, 1]}}}
steps: []
""",
        """\
model: {layers: {full: {attention: full, cache: rotating, window: 512}}}
steps: []
""",
    )
    quiet = (
        # A sliding layer may keep every key: its mask has the window.
        """\
model: {layers: {sliding: {attention: sliding, cache: dense, window: 512}}}
steps:
- {attention: [{family: sliding, cache: dense, offset: 600, q: 2, k: 602, mask: [2, 602]}]}
""",
        """\
scheduler: {max_kv: 512}
model: {layers: {full: {attention: full}}}
steps:
- {attention: [{family: full, cache: rotating, window: 512, keep: 4, offset: 600, q: 1,
    k: 512}]}
""",
        """\
model: {config: {sliding_window: 8, layer_types: [full_attention, sliding_attention]},
    layers: {full: {attention: full, layers: [0]}, sliding: {attention: sliding, window: 8,
    layers: [1]}}}
steps: []
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.phase != "model":
            return
        config = _text_config(entry.config or {})
        for name, family in (entry.layers or {}).items():
            message = _contradiction(family, config, capped=run.scheduler.max_kv is not None)
            if message is not None:
                yield self.found(f"the {name} layers: {message}", family=name, step=entry.step)

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        a, cap = call.attention, run.scheduler.max_kv
        if not call.facts.declared or (cap is not None and a.window in (None, cap)):
            return
        if call.kind == "full" and (a.cache in _BOUNDED or a.window is not None):
            bound = "" if a.window is None else f" bounded at {a.window}"
            yield self.found(
                f"the config calls these layers full, their {call.cache} cache is{bound or ' bounded'}",
                call=call,
            )
        elif call.kind == "sliding" and a.window is not None and call.facts.window not in (None, a.window):
            wanted = call.facts.window
            assert wanted is not None
            smaller = a.window < wanted
            yield self.found(
                f"the config gives these layers a window of {wanted}, their cache one of {a.window}",
                severity="error" if smaller else "info",
                call=call,
                window=a.window,
                config=wanted,
            )


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Wrappers of several modalities keep the language model's settings under `text_config`."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def _contradiction(family: Family, config: dict[str, Any], *, capped: bool) -> str | None:
    if family.attention == "full" and not capped and (family.cache in _BOUNDED or family.window is not None):
        return f"full, yet bounded ({family.cache or 'window'} {family.window or ''})".replace(" )", ")")
    if (
        family.attention == "sliding"
        and family.window is None
        and config.get("sliding_window", 1) in (None, 0)
    ):
        return "sliding, but the config has no window"
    types = config.get("layer_types")
    if not isinstance(types, list) or family.attention is None:
        return None
    for layer in family.layers or ():
        wanted = _LAYER_TYPES.get(str(types[layer])) if 0 <= layer < len(types) else None
        if wanted is not None and wanted != family.attention:
            return f"layer {layer} is {family.attention} here and {wanted} in the config"
    return None
