"""What a recorded program adds to transformers, as text for a script: its masks, what it does with one that
does not fit, and cache layers that the library lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mlxdiag.replay.ops import CacheChoice, Forward, Plan

INTERFACE = '''\
class Handed:
    """Masks of the running forward that the recorded program hands in, by layers; None is no mask."""

    masks = {{}}


def get_interface(interface, implementation, default):
    """In place of the library's own: its attention, called as the recorded program calls it."""
    call = library_interface(interface, implementation, default)

    def attention(module, query, key, value, attention_mask, *args, **kwargs):
        for layers, sees in Handed.masks.items():
            if getattr(module, "layer_idx", None) in layers:
                attention_mask = as_given(sees, query, key)
{fitted}        return call(module, query, key, value, attention_mask, *args, **kwargs)

    return attention


def as_given(sees, query, key):
    """True where a query sees a key, in the form that the library gives to this implementation."""
    if sees is None:
        return None
    if isinstance(sees, str):
        sees = causal(query.shape[2], key.shape[2] - query.shape[2])
    if ATTENTION == "sdpa":
        return sees[None, None]
    return torch.where(sees, 0.0, torch.finfo(query.dtype).min)[None, None]


{builders}
library_interface = AttentionInterface.get_interface
AttentionInterface.get_interface = get_interface
'''

IMPORT = "from transformers.modeling_utils import AttentionInterface"

BUILDERS = {
    "causal": '''\
def causal(q, offset):
    """[q, offset + q]: a query sees itself and what is older."""
    return torch.arange(offset + q)[None] <= torch.arange(q)[:, None] + offset
''',
    "padded": '''\
def padded(q, offset, real):
    """[q, offset + q]: causal, and the columns of padding are hidden."""
    return causal(q, offset) & (torch.arange(offset + q)[None] < offset + real)
''',
    "window": '''\
def window(q, offset, width):
    """[q, offset + q]: causal, and nothing older than the window."""
    return causal(q, offset) & (torch.arange(offset + q)[None] > torch.arange(q)[:, None] + offset - width)
''',
    "capped": '''\
def capped(q, offset, width):
    """[q, width at most]: the mask of the window, cut to its newest columns."""
    if offset + q <= width:
        return window(q, offset, width)
    return torch.arange(width)[None] <= torch.arange(q)[:, None] + width - q
''',
}
NEEDS = {"causal": (), "padded": ("causal",), "window": ("causal",), "capped": ("causal", "window")}

FITTED = """\
        if isinstance(attention_mask, torch.Tensor) and attention_mask.shape[-1] != key.shape[2]:
            key, value, attention_mask = fitted(module, query, key, value, attention_mask)
"""

CONSUMER = '''\
class Guard(Exception):
    """The recorded program refuses a mask that does not fit, and ends."""


def fitted(module, query, key, value, mask):
    """What the recorded program does with a mask that does not fit its keys: {policy}."""
    q, k, m, width = query.shape[2], key.shape[2], mask.shape[-1], WINDOWS.get(module.layer_idx)
{body}
    return key, value, mask


def band(query, key, width):
    """Causal over the newest keys, and nothing older than the window."""
    q, k = query.shape[2], key.shape[2]
    sees = causal(q, k - q)
    if width is not None:
        sees = sees & (torch.arange(k)[None] > torch.arange(q)[:, None] + k - q - width)
    return as_given(sees, query, key)
'''

_LONG = ["if m > k:", "    mask = mask[..., m - k :]"]
BODIES = {
    "raise": [*_LONG, "else:", "    raise Guard(f'the mask has {m} columns for {k} keys')"],
    "discard:windowed": [*_LONG, "else:", "    mask = band(query, key, width)"],
    "discard:causal": [*_LONG, "else:", "    mask = band(query, key, None)"],
    "discard:none": [*_LONG, "else:", "    mask = None"],
    "discard:sliced": [
        *_LONG,
        "elif width is None or k <= width:",
        "    mask = band(query, key, None)",
        "else:",
        "    key, value = key[:, :, k - width :], value[:, :, k - width :]",
        "    sees = torch.arange(width)[None] <= torch.arange(q)[:, None] + width - q",
        "    mask = as_given(sees, query, key)",
    ],
    "crop:old": [*_LONG, "else:", "    key, value = key[:, :, k - m :], value[:, :, k - m :]"],
    "crop:new": ["mask, key, value = mask[..., :k], key[:, :, :m], value[:, :, :m]"],
    "rebuild": ["mask = band(query, key, width)"],
}
"""By policy, what happens to a mask of `m` columns over `k` keys."""

LAYERS = {
    "buffered": "BufferedSlidingLayer({window}, {slack})",
    "clamped": "ClampedSlidingLayer({window})",
    "front_trim": "FrontTrimLayer()",
    "dense": "DynamicLayer()",
}
"""By kind of a cache that is not the library's own choice: the expression for one of its layers."""


def parts(policy: str, plan: Plan, instance: Any) -> Iterator[str]:
    """The parts that stand in for the recorded program, where there is anything of it."""
    forwards = [op for op in plan.ops if isinstance(op, Forward)]
    if not any(op.callers or op.unmasked for op in forwards):
        return
    fits = policy == "strict" or not any(op.callers for op in forwards)
    asked = {mask.builder for op in forwards for mask in op.callers} | {"causal"}
    names = [name for name in BUILDERS if name in asked or any(name in NEEDS[one] for one in asked)]
    builders = "\n\n".join(BUILDERS[name] for name in names) + "\n"
    yield INTERFACE.format(fitted="" if fits else FITTED, builders=builders)
    if not fits:
        windows = {
            layer.index: layer.window for layer in instance.geometry.layers if layer.attention == "sliding"
        }
        yield f"WINDOWS = {windows!r}\n"
        body = "\n".join("    " + line for line in BODIES[policy])
        yield CONSUMER.replace("{policy}", policy).replace("{body}", body)


def hand(op: Forward, instance: Any) -> str:
    """One more argument of `run.feed`: the masks that are handed in, by layers."""
    given = [(one.family, repr("causal") if one.causal else "None") for one in op.unmasked] + [
        (mask.family, _built(mask)) for mask in op.callers
    ]
    if not given:
        return ""
    layers = [
        [layer.index for layer in instance.geometry.layers if family in (None, layer.family)]
        for family, _ in given
    ]
    told = ", ".join(f"{tuple(own)}: {made}" for own, (_, made) in zip(layers, given, strict=True))
    return f", masks={{{told}}}"


def _built(mask: Any) -> str:
    q, offset = mask.shape[0], mask.offset
    last = {"padded": f", {mask.real}", "window": f", {mask.window}", "capped": f", {mask.window}"}
    return f"{mask.builder}({q}, {offset}{last.get(mask.builder, '')})"


def own_layers(plan: Plan, instance: Any) -> tuple[list[str], list[str]]:
    """Source of the cache layers that the library lacks, and lines that put layers into `cache`."""
    from mlxdiag.models.torch import layers

    chosen = {name: choice for name, choice in plan.caches.items() if choice.kind in LAYERS}
    kinds = dict.fromkeys(choice.kind for choice in chosen.values())
    classes = {
        "buffered": layers.BufferedSlidingLayer,
        "clamped": layers.ClampedSlidingLayer,
        "front_trim": layers.FrontTrimLayer,
    }
    source = [_source(classes[kind]) for kind in kinds if kind in classes]
    lines = [
        f"cache.layers[{layer.index}] = {_layer(chosen[layer.family], layer.window)}"
        for layer in instance.geometry.owners()
        if layer.family in chosen
    ]
    return source, lines


def _source(kind: type) -> str:
    """A class of this program, without what only a type checker reads."""
    lines = inspect.getsource(kind).replace("  # type: ignore[misc]", "").splitlines()
    return "\n".join(line for line in lines if line.strip() not in ("keys: Any", "values: Any")) + "\n"


def _layer(choice: CacheChoice, window: int | None) -> str:
    return LAYERS[choice.kind].format(window=window or 0, slack=choice.slack)


def imported(plan: Plan) -> list[str]:
    """Classes of the library that the layers are made from."""
    bases = {
        "buffered": "DynamicLayer",
        "clamped": "DynamicSlidingWindowLayer",
        "front_trim": "DynamicLayer",
        "dense": "DynamicLayer",
    }
    return sorted({bases[choice.kind] for choice in plan.caches.values() if choice.kind in bases})
