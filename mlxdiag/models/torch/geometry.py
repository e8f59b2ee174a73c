"""What a transformers config object says about a model's layers. Only the config speaks, never a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlxdiag.errors import MlxdiagError, UnreadableError
from mlxdiag.models.adapter import CACHE_OF, Geometry, LayerSpec
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.torch.families import MEANING, Meaning

KINDS: dict[str, str | None] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "indexed_attention": "full",
    "minimax_m3_sparse": "full",
    "compressed_sparse_attention": "full",
    "heavily_compressed_attention": "full",
    "hybrid": "full",
    "sliding_attention": "sliding",
    "local": "sliding",
    "hybrid_sliding": "sliding",
    "reference_sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "conv": "recurrent",
    "recurrent": "recurrent",
    "moe": None,
    "mlp": None,
    "dummy": None,
}
"""Attention kind of each word that `layer_types` uses; None: no token mixing. `hybrid` layers mix in two
ways at once, of which the attention is what a mask can spoil."""

OPAQUE = (
    "indexed_attention",
    "minimax_m3_sparse",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
"""Layers whose keys are picked for each query, or are not one per token."""


def of_config(config: Any) -> Geometry:
    """The geometry that a config object describes; a wrapper's text config is read in its place.

    Raises UnreadableError where a config names a kind of layer that is not known.
    """
    text = config.get_text_config(decoder=True)
    words = layer_words(text)
    meaning = MEANING.get(text.model_type, Meaning())
    each = per_layer(text)
    kinds = _kinds(text, words, meaning)
    windows = [window(layer, kind) for layer, kind in zip(each, kinds, strict=True)]
    owners = len(kinds) - (getattr(text, "num_kv_shared_layers", None) or 0)
    read = _read(config)
    names = _names(kinds, windows)
    layers = []
    for index, kind in enumerate(kinds):
        if kind is None:
            continue
        told = read.layer(index) if read else None
        softmax = "opaque" if words[index] in OPAQUE else meaning.softmax
        layers.append(
            LayerSpec(
                index=index,
                family=names[index],
                attention=kind,
                window=windows[index],
                cache=CACHE_OF[kind],
                shares=None if index < owners else _owner(kinds, owners, index),
                sinks=_sinks(meaning, kind, told),
                softmax=softmax,
                positions=_positions(text, meaning, index, kind, told),
            )
        )
    return Geometry(
        architecture=text.model_type,
        layers=tuple(layers),
        depth=len(kinds),
        vocab=text.vocab_size,
        tokens=read.tokens if read else None,
        config=read.config if read else {},
    )


def looking_ahead(config: Any) -> dict[str, Any]:
    """The fields of a config (of its text part) by which queries attend to later tokens; empty for most."""
    text = config.get_text_config(decoder=True)
    told: dict[str, Any] = {}
    if getattr(text, "use_bidirectional_attention", None) in (True, "all"):
        told["use_bidirectional_attention"] = text.use_bidirectional_attention
    if not getattr(text, "is_causal", True):
        told["is_causal"] = False
    return told


def both_ways(config: Any) -> str | None:
    """Why a config's model is not judged: it attends to later tokens, so that no KV cache can hold for it."""
    for name, value in looking_ahead(config).items():
        return f"{name} is {value!r}: queries attend to later tokens, so that nothing can be fed in pieces"
    return None


def layer_words(text: Any) -> list[str]:
    """The word for each layer: listed, or inferred as the library infers it for a cache."""
    for name in ("layer_types", "layers_block_type", "attention_layers"):
        if (listed := getattr(text, name, None)) is not None:
            return list(listed)
    words = []
    for layer in per_layer(text):
        if _size(layer, "sliding_window") is not None:
            words.append("sliding_attention")
        else:
            blocks = _size(layer, "attention_chunk_size") is not None
            words.append("chunked_attention" if blocks else "full_attention")
    return words


def _kinds(text: Any, words: Sequence[str], meaning: Meaning) -> list[str | None]:
    unknown = [word for word in words if word not in KINDS]
    if unknown:
        raise UnreadableError(f"config of {text.model_type} names an unknown kind of layer, {unknown[0]!r}")
    kinds = [KINDS[word] for word in words]
    if not (meaning.windowed and text.sliding_window):
        return kinds
    return ["sliding" if kind == "full" else kind for kind in kinds]


def per_layer(text: Any) -> list[Any]:
    """One config per layer: layers may differ in heads, sizes and windows."""
    return list(text.per_layer_config)


def window(layer: Any, kind: str | None) -> int | None:
    """Keys that a query of this layer may see, itself included; for chunked layers the block length."""
    if kind == "chunked":
        return _size(layer, "attention_chunk_size")
    if kind != "sliding":
        return None
    names = ("sliding_window", "attention_window_size", "sliding_window_size", "window_size")
    return next((size for name in names if (size := _size(layer, name)) is not None), None)


def _size(layer: Any, name: str) -> int | None:
    value = getattr(layer, name, None)
    return int(value) if value else None


def _names(kinds: Sequence[str | None], windows: Sequence[int | None]) -> list[str]:
    """Family names: the kind, with its window where a kind has several."""
    pairs = list(zip(kinds, windows, strict=True))
    several = {kind for kind in kinds if len({w for k, w in pairs if k == kind}) > 1}
    return [f"{k}-{w}" if k in several else str(k) for k, w in pairs]


def _owner(kinds: Sequence[str | None], owners: int, index: int) -> int | None:
    """The last layer of the same kind among those that keep keys."""
    same = [candidate for candidate in range(owners) if kinds[candidate] == kinds[index]]
    return same[-1] if same else None


def _sinks(meaning: Meaning, kind: str, told: LayerSpec | None) -> bool:
    return kind in meaning.sinks or (told is not None and told.sinks)


def _positions(text: Any, meaning: Meaning, index: int, kind: str, told: LayerSpec | None) -> bool:
    listed = getattr(text, "no_rope_layers", None)
    if isinstance(listed, list) and index < len(listed):
        return bool(listed[index])
    if meaning.nope:
        return kind not in meaning.nope
    return told is None or told.positions


def _read(config: Any) -> Geometry | None:
    """What config.json tells in every library alike: special ids, positions, sinks. None for families that
    are written in words which only this library has."""
    try:
        return from_config(config.to_dict())
    except MlxdiagError:
        return None
