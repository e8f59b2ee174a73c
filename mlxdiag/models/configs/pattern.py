"""Which layer is of which kind: the many spellings that configs use, tried in order. Pure functions.

Letters: L sliding, G full, R recurrent, C chunked, - no token mixing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlxdiag.errors import UnreadableError
from mlxdiag.models.configs.habits import Habit, Switch

Reader = Callable[[Mapping[str, Any], int], str | None]

KINDS = {"L": "sliding", "G": "full", "R": "recurrent", "C": "chunked"}
WORDS = {
    "full_attention": "G",
    "attention": "G",
    "global_attention": "G",
    "global": "G",
    "hybrid": "G",
    "compressed_sparse_attention": "G",
    "heavily_compressed_attention": "G",
    "indexed_attention": "G",
    "minimax_m3_sparse": "G",
    "sliding_attention": "L",
    "local_attention": "L",
    "local": "L",
    "hybrid_sliding": "L",
    "chunked_attention": "C",
    "linear_attention": "R",
    "recurrent": "R",
    "mamba": "R",
    "conv": "R",
    "conv_mixer": "R",
    "mlp": "-",
    "moe": "-",
}
PICKED = (
    "indexed_attention",
    "minimax_m3_sparse",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
"""Full layers whose keys are picked for each query, or are not one per token."""
_HYBRID = {"*": "G", "M": "R", "-": "-", "E": "-"}
"""`hybrid_override_pattern` of nemotron_h: attention, Mamba, dense and expert feed-forward layers."""


def letters(
    text: Mapping[str, Any], habit: Habit, depth: int, window: int | None
) -> tuple[str, tuple[str, ...]]:
    """One letter per layer, and notes on what had to be assumed.

    `window` is what the config or the family's default gives; without one a *pattern* means full layers,
    while a layer that is listed as sliding stays so. Raises UnreadableError for an unknown word or a short
    list.
    """
    found = _first(LISTED, text, depth)
    notes: tuple[str, ...] = ()
    if found is None:
        found = _window_switch(text, depth, habit.switch) or _first(REPEATED, text, depth)
        if found is not None and habit.ahead:
            found = ("G" + found)[:depth]
        if found is None:
            found = _assumed(habit, depth)
            if habit.pattern != "G":
                notes = (f"the config names no layer kinds; the family's pattern {habit.pattern} is assumed",)
        if window is None:
            found = found.replace("L", "G").replace("C", "G")
    if habit.last is not None and found[-1] != habit.last:
        notes = (*notes, f"the last layer is always {KINDS[habit.last]}, whatever the config lists")
        found = found[:-1] + habit.last
    field, present = habit.differs_if or ("model_type", True)
    if habit.differs and set(found) & set("LC") and (text.get(field) is not None) == present:
        notes = (*notes, habit.differs)
    return found, notes


def _assumed(habit: Habit, depth: int) -> str:
    """The layers of a family whose config names none."""
    if habit.backward:
        return cycle(habit.pattern[::-1], depth)[::-1]
    found = (habit.lead + cycle(habit.pattern, depth)[len(habit.lead) :])[:depth]
    return found if habit.one in found else found[:-1] + habit.one


def cycle(pattern: str, depth: int) -> str:
    """The pattern repeated over all layers."""
    return (pattern * (depth // len(pattern) + 1))[:depth]


def _first(readers: Sequence[Reader], text: Mapping[str, Any], depth: int) -> str | None:
    return next((found for read in readers if (found := read(text, depth)) is not None), None)


def _layer_types(text: Mapping[str, Any], depth: int) -> str | None:
    for name in ("layer_types", "layers_block_type", "attention_layers"):
        if text.get(name) is not None:
            return _spell(name, _strings(text, name), depth)
    return None


def _hybrid(text: Mapping[str, Any], depth: int) -> str | None:
    pattern = text.get("hybrid_override_pattern")
    if not isinstance(pattern, str | list) or not pattern:
        return None
    unknown = set(pattern) - set(_HYBRID)
    if unknown:
        raise UnreadableError(f"config field hybrid_override_pattern holds {sorted(unknown)}")
    return _long_enough("hybrid_override_pattern", "".join(_HYBRID[kind] for kind in pattern), depth)


def _sliding_layers(text: Mapping[str, Any], depth: int) -> str | None:
    """baichuan_m1 and inkling: the sliding layers by index."""
    names = ("sliding_window_layers", "local_layer_ids")
    found = (_marked(text, name, depth, marked="L", others="G") for name in names)
    return next((kinds for kinds in found if kinds is not None), None)


def _full_layers(text: Mapping[str, Any], depth: int) -> str | None:
    """lfm2: the attention layers by index, the others are convolutions."""
    return _marked(text, "full_attn_idxs", depth, marked="G", others="R")


def _sliding_flags(text: Mapping[str, Any], depth: int) -> str | None:
    """mimo_v2_flash: 1 marks a sliding layer."""
    flags = text.get("hybrid_layer_pattern")
    if not isinstance(flags, list):
        return None
    return _long_enough("hybrid_layer_pattern", "".join("L" if flag else "G" for flag in flags), depth)


def _numbered(text: Mapping[str, Any], depth: int) -> str | None:
    """kimi_linear: the recurrent layers by number, counted from 1."""
    listed = text.get("linear_attn_config")
    numbers = listed.get("kda_layers") if isinstance(listed, Mapping) else None
    if not isinstance(numbers, list):
        return None
    return "".join("R" if index + 1 in numbers else "G" for index in range(depth))


def _blocks(text: Mapping[str, Any], depth: int) -> str | None:
    """nemotron-nas: blocks without attention, or with a matrix in its place."""
    blocks = text.get("block_configs")
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        return None
    found = (block.get("attention") or {} for block in blocks)
    kinds = ("-" if one.get("no_op") or one.get("replace_with_linear") else "G" for one in found)
    return _long_enough("block_configs", "".join(kinds), depth)


def _mamba_step(text: Mapping[str, Any], depth: int) -> str | None:
    """plamo2: one attending layer in every few, which slides unless it is listed as full."""
    step = text.get("mamba_step")
    if not isinstance(step, int) or step < 2 or not text.get("mamba_enabled", True):
        return None
    full = text.get("full_attention_idx") or []
    middle = step // 2
    attending = {depth - 1} if depth <= middle else set(range(middle, depth, step))
    return "".join("R" if i not in attending else "G" if i in full else "L" for i in range(depth))


def _grouped(text: Mapping[str, Any], depth: int) -> str | None:
    """bailing: the last layer of each group attends, and so do those after the last whole group."""
    size = text.get("layer_group_size")
    if not isinstance(size, int) or size < 1:
        return None
    whole = depth // size * size
    return "".join("G" if (index + 1) % size == 0 or index >= whole else "R" for index in range(depth))


def _block_types(text: Mapping[str, Any], depth: int) -> str | None:
    """recurrent_gemma: repeated over the layers; its attention blocks are local."""
    for name in ("block_types", "_block_types"):
        if text.get(name) is not None:
            types = _strings(text, name)
            return cycle(_spell(name, types, len(types)).replace("G", "L"), depth)
    return None


def _window_switch(text: Mapping[str, Any], depth: int, switch: Switch) -> str | None:
    """Qwen and its kin: a window only when switched on, and only for some layers."""
    if not text.get("use_sliding_window", switch.on):
        return "G" * depth if "use_sliding_window" in text else None
    if switch.where == "bare":
        bare = text.get("no_rope_layers")
        if isinstance(bare, list) and len(bare) >= depth:
            return "".join("G" if rotated else "L" for rotated in bare[:depth])
    if switch.where in ("all", "bare"):
        return cycle(switch.pattern, depth)
    bound = text.get("max_window_layers", switch.layers)
    bound = min(bound, depth) if isinstance(bound, int) else depth
    if switch.where == "below":
        return cycle(switch.pattern, bound) + "G" * (depth - bound)
    return "G" * bound + "L" * (depth - bound)


def _pattern(text: Mapping[str, Any], depth: int) -> str | None:
    """A string of letters, or a number p: every p-th layer is full."""
    for name in ("sliding_window_pattern", "_sliding_window_pattern", "layer_switch"):
        value = text.get(name)
        if value is None:
            continue
        if isinstance(value, str) and value and not set(value) - set("LG"):
            return cycle(value, depth)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cycle("L" * (value - 1) + "G", depth) if value else "G" * depth
        raise UnreadableError(f"config field {name} must be a number or letters L and G, not {value!r}")
    return None


def _every(text: Mapping[str, Any], depth: int) -> str | None:
    """One attention layer in every few: windowed others in afmoe, recurrent ones in qwen3_next and jamba."""
    every, others = text.get("global_attn_every_n_layers"), "L"
    if every is None:
        every, others = text.get("full_attention_interval"), "R"
    if isinstance(every, int) and every > 0:
        return cycle(others * (every - 1) + "G", depth)
    period, offset = text.get("attn_layer_period"), text.get("attn_layer_offset")
    if isinstance(period, int) and isinstance(offset, int) and period > 0:
        return "".join("G" if index % period == offset else "R" for index in range(depth))
    return None


LISTED: tuple[Reader, ...] = (
    _layer_types,
    _hybrid,
    _sliding_layers,
    _full_layers,
    _sliding_flags,
    _numbered,
    _blocks,
)
"""Readers of fields that name every layer."""
REPEATED: tuple[Reader, ...] = (
    _block_types,
    _pattern,
    _every,
    _grouped,
    _mamba_step,
)
"""Readers of fields that describe a repetition."""
SPELT = (
    *("layer_types", "layers_block_type", "attention_layers", "hybrid_override_pattern", "block_configs"),
    *(
        "sliding_window_layers",
        "local_layer_ids",
        "full_attn_idxs",
        "hybrid_layer_pattern",
        "linear_attn_config",
    ),
    *("block_types", "_block_types", "sliding_window_pattern", "_sliding_window_pattern", "layer_switch"),
    *("global_attn_every_n_layers", "full_attention_interval", "attn_layer_period", "attn_layer_offset"),
    *("layer_group_size", "mamba_step", "full_attention_idx", "use_sliding_window", "max_window_layers"),
    *("num_kv_shared_layers", "num_kv_reuse_layers"),
)
"""Every field that says which layer is of which kind, or reads an earlier one's keys."""


def _spell(name: str, words: Sequence[str], depth: int) -> str:
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        raise UnreadableError(f"config field {name} names an unknown kind of layer, {unknown[0]!r}")
    return _long_enough(name, "".join(WORDS[word] for word in words), depth)


def _long_enough(name: str, kinds: str, depth: int) -> str:
    """A longer list is legal: step3p5 lists its draft layers too."""
    if len(kinds) < depth:
        raise UnreadableError(f"config field {name} names {len(kinds)} layers of {depth}")
    return kinds[:depth]


def _marked(text: Mapping[str, Any], name: str, depth: int, marked: str, others: str) -> str | None:
    indexes = text.get(name)
    if not isinstance(indexes, list):
        return None
    if any(not isinstance(index, int) or not 0 <= index < depth for index in indexes):
        raise UnreadableError(f"config field {name} must list layer indexes below {depth}, not {indexes}")
    return "".join(marked if index in indexes else others for index in range(depth))


def _strings(text: Mapping[str, Any], name: str) -> list[str]:
    value = text[name]
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UnreadableError(f"config field {name} must be a list of strings")
    return value
