"""From a config.json to the kinds of its layers. Only the config speaks, never the caches of a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlxdiag.errors import UnreadableError
from mlxdiag.models.adapter import CACHE_OF, Geometry, LayerSpec
from mlxdiag.models.configs.habits import HABITS, Habit
from mlxdiag.models.configs.pattern import KINDS, PICKED, letters
from mlxdiag.models.configs.sizes import DEPTHS
from mlxdiag.traces.types import Tokens

DEEPEST = 4096
"""More layers than any model has. A list is made of them before anything is known of their weights."""
_SHARED = ("num_kv_shared_layers", "num_kv_reuse_layers")
_WINDOWS = ("sliding_window", "attention_window_size", "sliding_window_size", "window_size")
_BLOCKS = ("attention_chunk_size",)
_SHOWN = (
    *_WINDOWS,
    *_BLOCKS,
    "sliding_window_pattern",
    *DEPTHS,
    "num_kv_shared_layers",
    "sliding_window_layers",
    "block_types",
    "use_sliding_window",
)


def from_config(config: Mapping[str, Any]) -> Geometry:
    """The geometry that a config.json describes.

    A wrapper's `text_config` is read in its place. A field that is absent takes the family's default
    (`habits.py`), a window of null or 0 means no window. Raises UnreadableError where the config
    contradicts itself or says nothing about the number of layers.
    """
    text = text_of(config)
    architecture = str(text.get("model_type") or "unknown")
    habit = HABITS.get(architecture, Habit())
    depth = depth_of(text, habit)
    bound = _window(text, habit, _BLOCKS if "C" in habit.pattern else _WINDOWS)
    kinds, notes = letters(text, habit, depth, bound)
    return Geometry(
        architecture=architecture,
        layers=_layers(text, habit, kinds),
        depth=depth,
        vocab=_integer(text, "vocab_size") or _integer(text, "num_vocab"),
        tokens=_tokens(config, text, habit),
        config={name: text[name] for name in _SHOWN if text.get(name) is not None},
        notes=notes,
    )


def text_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The text model's part of a config: `text_config` over the wrapper's own fields, with its model type."""
    if not isinstance(config, Mapping):
        raise UnreadableError(f"a model config must be a JSON object, not {type(config).__name__}")
    wrapper = str(config.get("model_type") or "unknown")
    inner = HABITS.get(wrapper, Habit()).text or wrapper
    nested = config.get("text_config")
    if nested is None:
        return {**config, "model_type": inner}
    if not isinstance(nested, Mapping):
        raise UnreadableError(f"config field text_config must be an object, not {type(nested).__name__}")
    outer = {name: value for name, value in config.items() if name != "text_config"}
    return {**outer, **nested, "model_type": nested.get("model_type") or inner}


def depth_of(text: Mapping[str, Any], habit: Habit) -> int:
    """Number of layers. Raises UnreadableError where neither the config nor the library says."""
    depth = next((found for name in DEPTHS if (found := _integer(text, name)) is not None), habit.depth)
    if depth is None:
        listed = (text.get(name) for name in ("layer_types", "layers_block_type", "hybrid_override_pattern"))
        depth = next((len(kinds) for kinds in listed if isinstance(kinds, list | str)), None)
    if depth is None or not 1 <= depth <= DEEPEST:
        raise UnreadableError(f"config of {text.get('model_type')}: num_hidden_layers is {depth}")
    return depth


def _layers(text: Mapping[str, Any], habit: Habit, kinds: Sequence[str]) -> tuple[LayerSpec, ...]:
    owners = len(kinds) - _shared(text, habit, len(kinds))
    hybrid = any(kind in "LC" for kind in kinds)
    layers = []
    for index, kind in enumerate(kinds):
        if kind == "-":
            continue
        attention = KINDS[kind]
        window = {"L": _window(text, habit, _WINDOWS), "C": _window(text, habit, _BLOCKS)}.get(kind)
        layers.append(
            LayerSpec(
                index=index,
                family=attention,
                attention=attention,
                window=window,
                cache=CACHE_OF[attention],
                shares=None if index < owners else _owner(kinds, owners, index),
                sinks=_sinks(text, habit, kind),
                softmax=_softmax(text, habit, index),
                positions=_positions(text, habit, index, habit.nope and hybrid and kind == "G"),
            )
        )
    return tuple(layers)


def _positions(text: Mapping[str, Any], habit: Habit, index: int, bare: bool) -> bool:
    """Whether a layer has a positional encoding; `bare`: the family has none on layers like this one."""
    for name in ("no_rope_layers", "layer_rope_theta"):
        listed = text.get(name)
        if isinstance(listed, list) and index < len(listed):
            return bool(listed[index])
    if text.get("mla_use_nope") or text.get("position_embedding_type") == "nope":
        return False
    return habit.rope and not bare


def _sinks(text: Mapping[str, Any], habit: Habit, kind: str) -> bool:
    field = {"L": "add_swa_attention_sink_bias", "G": "add_full_attention_sink_bias"}.get(kind, "")
    return bool(text.get(field, habit.sinks))


def _softmax(text: Mapping[str, Any], habit: Habit, index: int) -> str:
    """phi3small computes block-sparse attention by hand; an indexer picks keys on layers that say so."""
    listed = text.get("layer_types")
    if isinstance(listed, list) and index < len(listed) and listed[index] in PICKED:
        return "opaque"
    every = _integer(text, "dense_attention_every_n_layers")
    return "manual" if every and (index + 1) % every else habit.softmax


def _shared(text: Mapping[str, Any], habit: Habit, depth: int) -> int:
    name = next((name for name in _SHARED if text.get(name) is not None), _SHARED[0])
    count = _integer(text, name)
    if count is None:  # a family's default is for its own depth; a smaller model shares nothing
        count = habit.shared if habit.shared < depth else 0
    if not 0 <= count < depth:
        raise UnreadableError(f"config: {name} is {count} of {depth} layers")
    return count


def _owner(kinds: Sequence[str], owners: int, index: int) -> int:
    """The last layer of the same kind among those that keep keys (transformers and mlx-lm agree)."""
    for candidate in range(owners - 1, -1, -1):
        if kinds[candidate] == kinds[index]:
            return candidate
    raise UnreadableError(f"config: layer {index} shares keys, but no layer of its kind keeps any")


def _window(text: Mapping[str, Any], habit: Habit, names: Sequence[str]) -> int | None:
    if (before := _integer(text, habit.before)) is not None:
        return before + 1
    if (twice := _integer(text, habit.twice)) is not None:
        return twice // 2
    for name in names:
        if name in text:
            window = _integer(text, name)
            if window is not None and window < 0:
                raise UnreadableError(f"config field {name} must be positive, not {window}")
            if window is None and any(text.get(other) is not None for other in names):
                continue
            return window or None
    return habit.window


def _integer(text: Mapping[str, Any], name: str) -> int | None:
    value = text.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableError(f"config field {name} must be an integer, not {value!r}")
    return value


def _tokens(config: Mapping[str, Any], text: Mapping[str, Any], habit: Habit) -> Tokens | None:
    """Ids as the config gives them; the outer object wins, as generation reads that one."""
    pad, eos = (
        config[name] if config.get(name) is not None else text.get(name)
        for name in ("pad_token_id", "eos_token_id")
    )
    ends = eos if isinstance(eos, list) else [eos]
    ids = [end for end in ends if isinstance(end, int)]
    if not (isinstance(pad, int) or ids or habit.reserved):
        return None
    return Tokens(
        pad=pad if isinstance(pad, int) else None, eos=ids or None, reserved=list(habit.reserved) or None
    )
