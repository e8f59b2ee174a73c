"""What a recorded server adds to the library, as text for a script: its masks, what it does with one that
does not fit, and caches that the library lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from mlxdiag.models.adapter import Instance, LayerSpec
from mlxdiag.replay.ops import CacheChoice, Forward, Plan

MASKS = '''\
class Handed:
    """The masks of the running forward that the recorded scheduler hands in."""

    cache, masks = None, ()


def mask_of_the_scheduler(h, cache=None, window_size=None, return_array=False):
    """In place of the library's own: handed in by this script, as the recorded scheduler did."""
    for place, held in enumerate(Handed.cache or []):
        for mask in Handed.masks if held is cache else ():
            if mask["caches"] is None or place in mask["caches"]:
                return built(h, cache, **{name: value for name, value in mask.items() if name != "caches"})
    return library_mask(h, cache, window_size=window_size, return_array=return_array)


def built(h, cache, builder, offset=0, q=None, m=None, real=0, window=None):
    if q is None:  # no mask, or the library's plain one
        return None if builder == "none" else "causal"
    rows, columns = mx.arange(q)[:, None], mx.arange(m)[None]
    if builder == "capped" and offset + q > window:
        sees = columns <= rows + window - q
    else:
        sees = columns <= rows + offset
    if builder == "window" or (builder == "capped" and offset + q <= window):
        sees = sees & (columns > rows + offset - window)
    if builder == "padded":
        sees = sees & (columns < offset + real)
    return mx.where(sees, 0.0, -mx.inf).astype(h.dtype)


library_mask = text_family.create_attention_mask
text_family.create_attention_mask = mask_of_the_scheduler
'''

CONSUMER = '''\
class Layer:
    """Stands in for a layer's attention, to know the window of the layer that is running."""

    window = None

    def __init__(self, attention, window):
        self.attention, self.own = attention, window

    def __call__(self, *args, **kwargs):
        Layer.window = self.own
        return self.attention(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.attention, name)


def attention_with_misfits(queries, keys, values, *, mask=None, **rest):
    """What the recorded server does with a mask that does not fit its keys: {policy}."""
    if isinstance(mask, mx.array) and mask.shape[-1] != keys.shape[-2]:
        q, k, m, window = queries.shape[-2], keys.shape[-2], mask.shape[-1], Layer.window
{body}
    return library_attention(queries, keys, values, mask=mask, **rest)


def band(q, k, window, dtype):
    """Causal over the newest keys, no key older than the window."""
    rows, columns = mx.arange(q)[:, None] + (k - q), mx.arange(k)[None]
    sees = columns <= rows
    if window is not None:
        sees = sees & (columns > rows - window)
    return mx.where(sees, 0.0, -mx.inf).astype(dtype)


library_attention = mx.fast.scaled_dot_product_attention
mx.fast.scaled_dot_product_attention = attention_with_misfits


def note_layers(model):
    for index, window in WINDOWS.items():
        layer = model.layers[index]
        name = attention_of(layer)
        setattr(layer, name, Layer(getattr(layer, name), window))
'''

_LONG = ["if m > k:", "    mask = mask[..., m - k :]"]
BODIES = {
    "raise": [*_LONG, "else:", "    raise ValueError(f'mask key axis ({m}) is shorter than the keys ({k})')"],
    "discard:windowed": [*_LONG, "else:", "    mask = band(q, k, window, queries.dtype)"],
    "discard:causal": [*_LONG, "else:", "    mask = band(q, k, None, queries.dtype)"],
    "discard:none": [*_LONG, "else:", "    mask = None"],
    "discard:sliced": [
        *_LONG,
        "elif window is None or k <= window:",
        "    mask = band(q, k, None, queries.dtype)",
        "else:",
        "    keys, values = keys[..., k - window :, :], values[..., k - window :, :]",
        "    sees = mx.arange(window)[None] <= mx.arange(q)[:, None] + window - q",
        "    mask = mx.where(sees, 0.0, -mx.inf).astype(queries.dtype)",
    ],
    "crop:old": [*_LONG, "else:", "    keys, values = keys[..., k - m :, :], values[..., k - m :, :]"],
    "crop:new": [
        "mask, keys, values = mask[..., :k], keys[..., :m, :], values[..., :m, :]",
    ],
    "rebuild": ["mask = band(q, k, window, queries.dtype)"],
}
"""By policy, what happens to a mask of `m` columns over `k` keys."""


def masks(plan: Plan) -> Iterator[str]:
    """The part that hands masks in, where the plan has any."""
    if any(isinstance(op, Forward) and (op.callers or op.unmasked) for op in plan.ops):
        yield MASKS


def consumer(policy: str, plan: Plan, instance: Instance) -> Iterator[str]:
    """The part that treats misfits, where something is handed in and the policy is not the library's own."""
    if policy == "strict" or not any(isinstance(op, Forward) and op.callers for op in plan.ops):
        return
    windows = {
        layer.index: layer.window if layer.attention == "sliding" else None
        for layer in instance.geometry.layers
    }
    body = "\n".join("        " + line for line in BODIES[policy])
    yield f"WINDOWS = {windows!r}\n"
    yield CONSUMER.replace("{policy}", policy).replace("{body}", body)


CLASSES = {
    "buffered": ("_Appending", "BufferedRotatingKVCache"),
    "clamped": ("ClampedRotatingKVCache",),
    "front_trim": ("_Appending", "FrontTrimKVCache"),
    "dense": (),
}


def own_caches(plan: Plan, instance: Instance) -> tuple[list[str], str]:
    """Source of the caches that the library lacks, and the expression for fresh caches."""
    cap = max((choice.cap for choice in plan.caches.values()), default=0)
    if cap:
        return [], f"make_prompt_cache(model, max_kv_size={cap})"
    chosen = {name: choice for name, choice in plan.caches.items() if choice.kind in CLASSES}
    if not chosen:
        return [], "make_prompt_cache(model)"
    from mlxdiag.models.mlx import caches

    names = dict.fromkeys(name for choice in chosen.values() for name in CLASSES[choice.kind])
    source = [IMPORTS] if names else []
    if "ClampedRotatingKVCache" in names:
        source.append(inspect.getsource(caches.capped_mask))
    source += [
        inspect.getsource(getattr(caches, name)).replace("  # type: ignore[misc]", "") for name in names
    ]
    lines = [f"    made[{place}] = {made}" for place, made in _made(chosen, instance)]
    source.append(
        "def fresh():\n"
        '    """The library\'s caches, with the recorded server\'s own for some layers."""\n'
        "    made = make_prompt_cache(model)\n" + "\n".join(lines) + "\n    return made\n"
    )
    return source, "fresh()"


IMPORTS = """\
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import KVCache, RotatingKVCache, _BaseCache
"""


def cache_owners(instance: Instance) -> list[LayerSpec | None]:
    """The layers that own the caches of one sequence, by place; None where none of the geometry does."""
    found = [instance.cache_layers(place) for place in range(len(instance.new_cache()))]
    return [instance.geometry.layer(layers[0]) if layers else None for layers in found]


def _made(chosen: dict[str, CacheChoice], instance: Instance) -> Iterator[tuple[int, str]]:
    """The caches that are not the library's own choice: their places, and the expressions for them."""
    for place, spec in enumerate(cache_owners(instance)):
        choice = chosen.get(spec.family) if spec is not None else None
        if spec is None or choice is None:
            continue
        window = spec.window or 0
        yield (
            place,
            {
                "buffered": f"BufferedRotatingKVCache({window}, {choice.slack})",
                "clamped": f"ClampedRotatingKVCache({window})",
                "front_trim": f"FrontTrimKVCache({choice.sinks})",
                "dense": "caches.KVCache()",
            }[choice.kind],
        )
