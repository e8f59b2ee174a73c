"""From the probe's events to the attention entries of a trace: equal layers share one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.events import AttentionEvent, Offset, event_of_call
from mlxdiag.traces.types import Attention, Family

Observed = Callable[[AttentionEvent], dict[str, Any]]


class Grouping:
    """Calls in short, grouped as `to_attention` does, for a model whose layer families are known: one
    comparison a layer, and an entry is built once a group.
    """

    def __init__(self, geometry: Geometry | None, whole: Mapping[str, Family]) -> None:
        """`layers` is left out of an entry for all the layers that `whole` has of its family."""
        self._families = {layer.index: layer.family for layer in geometry.layers} if geometry else {}
        self._whole = {name: family.layers for name, family in whole.items()}

    def of(self, calls: Iterable[Any]) -> list[Attention] | None:
        """None where a call is not in short."""
        groups: list[tuple[str | None, Any, list[int]]] = []
        latest: dict[str | None, tuple[str | None, Any, list[int]]] = {}
        families = self._families
        for call in calls:
            if type(call) is not tuple:
                return None
            update, mask, sinks = call
            layer, same = update[0], (update[3], mask, sinks)
            family = families.get(layer)
            group = latest.get(family)
            if group is None or group[1] != same:
                group = next((g for g in groups if g[0] == family and g[1] == same), None)
                if group is None:
                    group = (family, same, [])
                    groups.append(group)
                    latest[family] = group
            if layer is not None:
                group[2].append(layer)
        return [self._entry(*group) for group in groups]

    def _entry(self, family: str | None, same: Any, layers: list[int]) -> Attention:
        call = event_of_call(((None, None, None, same[0]), *same[1:]))
        layers.sort()
        return _entry(
            call, family, {} if layers == self._whole.get(family or "") else {"layers": layers or None}
        )


def to_attention(
    events: Iterable[AttentionEvent], geometry: Geometry | None = None, observed: Observed | None = None
) -> list[Attention]:
    """One entry for all layers whose calls were equal, in the order of their first layer.

    The family of a layer is what `geometry` says, never what its cache looks like. `observed` adds fields to
    an entry (those of the visibility level); layers that differ in them are kept apart.
    """
    families = {layer.index: layer.family for layer in geometry.layers} if geometry else {}
    groups: dict[bytes, tuple[Attention, list[int]]] = {}
    alike: dict[Any, list[int]] = {}
    """Layers of each group by what was observed: an entry is then built once a group, not once a layer."""
    for event in events:
        layer = event.layer
        family = families.get(layer) if layer is not None else None
        seen = None if observed else _same(event, family)
        layers = alike.get(seen) if seen is not None else None
        if layers is None:
            entry = _entry(event, family, observed(event) if observed else {})
            layers = groups.setdefault(msgspec.msgpack.encode(entry), (entry, []))[1]
            if seen is not None:
                alike[seen] = layers
        if layer is not None:
            layers.append(layer)
    return [_with_layers(entry, sorted(layers)) for entry, layers in groups.values()]


_PLAIN = attrgetter(
    "kind", "window", "keep", "slack", "kv_bits", "cursor", "live_start", "live", "buffer", "q", "k",
    "k_seen", "mask", "sinks", "fate", "fallback", "builder", "key_padding", "opaque",
)  # fmt: skip


def _same(event: AttentionEvent, family: str | None) -> Any:
    """Equal for events whose entries are equal."""
    offset, rope, vectors = event.offset, event.rope, event.vectors
    return (
        family,
        tuple(offset) if type(offset) is list else offset,
        tuple(rope) if type(rope) is list else rope,
        tuple(vectors.items()) if vectors is not None else None,
        tuple(event.ks) if event.ks is not None else None,
        _PLAIN(event),
    )


def _with_layers(entry: Attention, layers: list[int]) -> Attention:
    return msgspec.structs.replace(entry, layers=layers) if layers else entry


def _entry(event: AttentionEvent, family: str | None, more: dict[str, Any]) -> Attention:
    offset = one_if_equal(event.offset)
    batched = event.kind in ("batch", "batch_rotating")
    # Counted in the batch's own cursor, a live start would be compared with the offsets of rows.
    start = None if batched else event.live_start
    return Attention(
        family=family,
        cache=event.kind if event.kind != "unknown" else None,
        window=event.window,
        keep=event.keep,
        slack=event.slack,
        offset=offset,
        cursor=event.cursor if event.cursor != offset else None,
        live_start=start or None,
        live=event.live if start or event.kind == "buffered" else None,
        buffer=event.buffer or None,
        q=event.q,
        k=event.ks or event.k,
        rope=one_if_equal(event.rope),
        mask=event.mask,
        fate=event.fate,
        fallback=event.fallback or ("sliced" if _cut_to_mask(event) else None),
        builder=event.builder,
        key_padding=event.key_padding,
        kv_bits=event.kv_bits,
        sinks=event.sinks or None,
        vectors=event.vectors,
        opaque=event.opaque or None,
        **more,
    )


def _cut_to_mask(event: AttentionEvent) -> bool:
    """Whether somebody between cache and attention cut the keys to the length of the mask."""
    mask, k, seen = event.mask, event.k, event.k_seen
    if type(mask) is not tuple or k is None or seen is None or event.fate is not None:
        return False
    return seen < k and mask[-1] == seen


def one_if_equal(offset: Offset) -> Offset:
    """An int where all rows are equal, else the list."""
    if isinstance(offset, list) and offset and all(o == offset[0] for o in offset):
        return offset[0]
    return offset
