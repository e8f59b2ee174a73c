"""What a server does to mlx-lm's caches between forwards: batch, split, trim, save, quantise.

Each function takes the list of caches of one sequence or batch, as `Instance.new_cache` makes it, and calls
the library's own methods, in the way `mlx_lm.generate` does.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

from mlxdiag.errors import UnjudgedError

Caches = list[Any]

GROUP = 32
"""Numbers of a key or value that are quantised together: the smallest group that MLX has, since the keys of a
tiny model are short."""


def merge(rows: list[Caches]) -> Caches:
    """One batch cache per layer, a row per entry of `rows`.

    Raises:
        UnjudgedError: a cache class that the library cannot batch.
    """
    merged = []
    for layer in zip(*rows, strict=True):
        if not hasattr(layer[0], "merge"):
            raise UnjudgedError(f"{type(layer[0]).__name__} does not support batching in this library")
        merged.append(type(layer[0]).merge(list(layer)))
    return merged


def pad_left(caches: Caches, left: list[int]) -> None:
    """Announce `left[i]` padding tokens in front of row i of an empty batch."""
    import mlx.core as mx

    for cache in _flat(caches):
        if hasattr(cache, "update_and_fetch"):
            cache.prepare(left_padding=left)
        else:
            cache.left_padding = mx.array(left)


def pad_right(caches: Caches, lengths: list[int], right: list[int]) -> None:
    """Announce that the next forwards feed `lengths[i]` real tokens and then `right[i]` padding tokens."""
    for cache in caches:
        cache.prepare(lengths=lengths, right_padding=right)


def finalize(caches: Caches) -> None:
    """Roll the right padding of a batch to the front of its rows."""
    for cache in caches:
        if hasattr(cache, "finalize"):
            cache.finalize()


def keep_rows(caches: Caches, indices: list[int]) -> None:
    """Drop every row of a batch but these, in place."""
    for cache in caches:
        cache.filter(indices)


def extend(caches: Caches, others: Caches) -> None:
    """Append the rows of another batch, in place."""
    for cache, other in zip(caches, others, strict=True):
        cache.extend(other)


def extract(caches: Caches, row: int) -> Caches:
    """The caches of one row, as a single sequence."""
    return [cache.extract(row) for cache in caches]


def is_batch(caches: Caches) -> bool:
    """Whether these caches hold rows that can be taken apart."""
    return all(hasattr(cache, "extract") for cache in caches)


def capped(model: Any, cap: int) -> Caches:
    """Fresh caches that hold at most `cap` keys, as `generate --max-kv-size` makes them."""
    from mlx_lm.models.cache import make_prompt_cache

    made: Caches = make_prompt_cache(model, max_kv_size=cap)
    return made


def trim(caches: Caches, tokens: int) -> None:
    """Take `tokens` off the end of every layer, as `trim_prompt_cache` does: all layers, or none."""
    from mlx_lm.models.cache import trim_prompt_cache

    trim_prompt_cache(caches, tokens)


def evict(caches: Caches, cap: int, sinks: int) -> None:
    """Drop the oldest keys of the dense layers down to `cap`, behind at most `sinks` that stay."""
    for cache in _flat(caches):
        if hasattr(cache, "trim_front_keep_sink") and cache.live > cap:
            cache.trim_front_keep_sink(cache.live - cap, min(sinks, cap - 1))


def fork(caches: Caches) -> Caches:
    """An independent copy, as a prompt cache hands out."""
    return copy.deepcopy(caches)


def through_a_file(caches: Caches) -> Caches:
    """Save to a safetensors file and load it again."""
    from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "prompt.safetensors")
        save_prompt_cache(path, caches)
        loaded: Caches = load_prompt_cache(path)
        evaluate(loaded)
        return loaded


def quantize(caches: Caches, bits: int) -> None:
    """Replace each cache that says it can be quantised, in place, as `maybe_quantize_kv_cache` does.

    Raises:
        NotImplementedError: the library refuses one of them.
    """
    for i, cache in enumerate(caches):
        if hasattr(cache, "to_quantized"):
            caches[i] = cache.to_quantized(group_size=GROUP, bits=bits)


def fed(caches: Caches) -> bool:
    """Whether anything was appended to them."""
    holding = [cache for cache in caches if hasattr(cache, "empty") and hasattr(cache, "update_and_fetch")]
    return not all(cache.empty() for cache in holding)


def evaluate(caches: Caches) -> None:
    """Force the arrays that the caches hold, so that graphs do not grow over a schedule."""
    import mlx.core as mx

    mx.eval([cache.state for cache in caches])


def _flat(caches: Caches) -> Caches:
    return [member for cache in caches for member in getattr(cache, "caches", (cache,))]
