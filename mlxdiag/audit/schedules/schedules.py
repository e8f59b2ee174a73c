"""The schedule of each scenario as a trace, lengths in terms of the window. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mlxdiag.audit.schedules.batches import BATCH
from mlxdiag.audit.schedules.reuse import DRAFTS, REUSE
from mlxdiag.audit.schedules.script import Schedule, Script, Sizes
from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import Instance
from mlxdiag.traces.types import Model, Scheduler, Trace


def fresh_within_window(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 2)
    script.decode()


def fresh_over_window(script: Script, sizes: Sizes) -> None:
    """Far enough that what begins with a position in the tens shows in the token after."""
    script.feed(max(2 * sizes.window + 3, FAR))
    script.decode()


def chunks_below_window(script: Script, sizes: Sizes) -> None:
    _chunks(script, sizes.window // 2, 2 * sizes.window + sizes.window // 4)


def chunks_equal_window(script: Script, sizes: Sizes) -> None:
    _chunks(script, sizes.window, 2 * sizes.window + sizes.window // 2)


def chunks_above_window(script: Script, sizes: Sizes) -> None:
    _chunks(script, sizes.window + 3, 2 * sizes.window + 10)


def chunks_not_dividing(script: Script, sizes: Sizes) -> None:
    _chunks(script, sizes.window - 3, 2 * sizes.window + 2)


def continue_after_wrap(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window + 1)
    script.decode(2)
    script.feed(sizes.window // 2 + 1)
    script.decode()


def no_cache(script: Script, sizes: Sizes) -> None:
    script.feed(2 * sizes.window + 3)


def decode_across_window(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 3)
    script.decode(6)


def _chunks(script: Script, size: int, total: int) -> None:
    """Pieces of `size`, the last one shorter, and a token: at least one piece lies wholly past the window."""
    while total > 0:
        script.feed(min(size, total))
        total -= size
    script.decode()


PLAIN: Mapping[str, Schedule] = {
    "fresh-within-window": fresh_within_window,
    "fresh-over-window": fresh_over_window,
    "chunks-below-window": chunks_below_window,
    "chunks-equal-window": chunks_equal_window,
    "chunks-above-window": chunks_above_window,
    "chunks-not-dividing": chunks_not_dividing,
    "continue-after-wrap": continue_after_wrap,
    "no-cache": no_cache,
    "decode-across-window": decode_across_window,
}


SCHEDULES: Mapping[str, Schedule] = {**PLAIN, **REUSE, **BATCH}
"""By the scenario's name."""

FAR = 43
"""Tokens of the longest pass: one forward, and no schedule has more."""
PRETENDED = 8
"""Window that schedules are built around for a family without one: what they chunk, trim and batch is the
same."""


KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "num_attention_groups",
    "multi_query_group_num",
)


def sizes_of(instance: Instance) -> Sizes:
    """The lengths that a family's schedules are built around."""
    windows = [layer.window for layer in instance.geometry.layers if layer.window]
    heads = _field(instance.config, KV_HEADS)
    return Sizes(window=min(windows, default=PRETENDED), kv_heads=max(heads or 0, 2))


def build(name: str, instance: Instance) -> Trace:
    """The schedule of a scenario for a model, as a trace that replay can run.

    Raises:
        UsageError: there is no such scenario.
    """
    from mlxdiag.audit.schedules.torch_schedules import TORCH

    known = {**SCHEDULES, **TORCH}
    schedule = known.get(name)
    if schedule is None:
        raise UsageError(f"no schedule for scenario {name!r}; known: {', '.join(known)}")
    script, sizes = Script(), sizes_of(instance)
    schedule(script, sizes)
    scheduler = SCHEDULERS.get(name)
    if name == "key-cap-below-pins":
        scheduler = Scheduler(max_kv=KEEP, keep=KEEP - 1)
    elif name in CAPPED:
        scheduler = Scheduler(max_kv=_cap(instance, sizes), keep=KEEP)
    pinned = scheduler.keep if scheduler is not None else None
    # Which caches it is about, no field of a trace tells.
    scenario = name if name in TORCH else None
    return script.trace(model_of(instance, pinned=pinned), scheduler, scenario)


_TRIE = Scheduler(store="trie")
SCHEDULERS: Mapping[str, Scheduler] = {
    "no-cache": Scheduler(cacheless=True),
    "trie-shorter": _TRIE,
    "trie-exact": _TRIE,
    "trie-longer": _TRIE,
    "trie-longer-after-wrap": _TRIE,
    "quantized-keys": Scheduler(kv_bits=8),
    "quantized-cache": Scheduler(kv_bits=8),
    "drafts": Scheduler(looped=True, speculative=DRAFTS),
    "drafts-quantized": Scheduler(looped=True, speculative=DRAFTS, kv_bits=8),
    "drafts-stored": Scheduler(looped=True, speculative=DRAFTS, store="trie"),
}
"""What the trace's header says of the scheduler, where a schedule needs it."""
CAPPED = ("key-cap", "key-cap-over", "key-cap-below-pins", "key-cap-batch")
CAP_NOTE = (
    "by design, masks for several tokens hide the pinned keys, so that what is seen depends on the chunks; "
    "each query was compared with one that is given the same keys"
)
CAP_ROWS_NOTE = (
    "which keys each row sees was judged; logits were not compared, since the cap loses keys on purpose"
)
KEEP = 4
"""Sinks that `make_prompt_cache(max_kv_size)` pins (mlx_lm/models/cache.py), as is documented: "Old entries
(except the first 4 tokens) will be overwritten" (mlx_lm/generate.py). A cap of four has room for three and
the newest."""


def _cap(instance: Instance, sizes: Sizes) -> int:
    """Above a window, so that windowed layers keep keys which they must not see, the pinned ones first."""
    windowed = any(layer.window for layer in instance.geometry.layers)
    return sizes.window + KEEP if windowed else sizes.window


def model_of(instance: Instance, *, pinned: int | None = None) -> Model:
    """The model as the header of a trace names it: with its whole config, so that replay can build it.

    `pinned`: all of its caches have a cap, and keep as many keys in front.
    """
    geometry = instance.geometry
    layers = geometry.families()
    if pinned is not None:
        layers = {
            name: msgspec.structs.replace(family, cache="rotating", keep=pinned)
            for name, family in layers.items()
        }
    return Model(
        name=instance.name,
        architecture=geometry.architecture,
        config=instance.config,
        layers=layers,
        tokens=geometry.tokens,
    )


def inapplicable(name: str, instance: Instance) -> str | None:
    """Why a scenario says nothing about this model; None where it does."""
    if name in CAPPED and hasattr(instance.model, "make_cache"):
        return "the family makes its own caches, for which make_prompt_cache ignores max_kv_size, as it says"
    return None


def _field(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    text = config.get("text_config")
    for held in (config, text if isinstance(text, dict) else {}):
        for name in names:
            if isinstance(held.get(name), int):
                return int(held[name])
    return None
