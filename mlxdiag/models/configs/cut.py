"""A config made tiny: widths, depth and vocabulary cut; window, pattern and special structure kept. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.configs import sizes

ENOUGH = 4
"""Layers after which no further period is kept: short periods are repeated, long ones are not."""


def kept_layers(geometry: Geometry) -> tuple[int, ...]:
    """Which layers a tiny instance keeps: whole periods up to ENOUGH layers, then one sharer of each kind.

    Where the pattern has no period, the shortest prefix that holds two of each kind (or all of a rarer one).
    """
    kinds = _kinds(geometry)
    owners = [index for index in range(len(kinds)) if _owns(geometry, index)]
    sharers = [index for index in range(len(kinds)) if not _owns(geometry, index)]
    head = owners[: _prefix([kinds[index] for index in owners])]
    first_of_kind = {kinds[index]: index for index in reversed(sharers)}
    return tuple(head + sorted(first_of_kind.values()))


def cut(
    text: Mapping[str, Any],
    geometry: Geometry,
    kept: Sequence[int],
    vocab: int,
    window: int | None,
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """The text config of a tiny instance that keeps the layers `kept`.

    `defaults` maps the fields that the library's argument class knows to their defaults (`...` where it has
    none): a field that the config leaves out is cut too, when its default is a size.
    """
    small = {name: _resize(name, value) for name, value in text.items()}
    for name, default in defaults.items():
        if name not in small and default is not None and (name in sizes.FIXED or name in sizes.CAPPED):
            small[name] = _resize(name, 1 if default is ... else default)
        elif name not in small and default is ... and name in sizes.REQUIRED:
            small[name] = _nested_rope(text).get(name, sizes.REQUIRED[name])
    for name, value in text.items():
        if name in sizes.INDEX_LISTS or name.endswith("_token_id"):
            continue
        if isinstance(value, list) and len(value) >= geometry.depth:
            small[name] = [_resize(name, value[index]) for index in kept]
        elif name in sizes.LETTER_STRINGS and isinstance(value, str):
            small[name] = "".join(value[index] for index in kept)
    for name in sizes.INDEX_LISTS:
        if small.get(name) is not None:
            small[name] = _renumber(small[name], kept)
    _depth(small, geometry, kept, defaults)
    for name in sizes.VOCABULARIES:
        if name in small or name in defaults:
            small[name] = vocab
    if window is not None:
        for name in sizes.WINDOWS:
            if small.get(name) is not None or (name not in small and isinstance(defaults.get(name), int)):
                small[name] = window
    return small


def _depth(
    small: dict[str, Any], geometry: Geometry, kept: Sequence[int], defaults: Mapping[str, Any]
) -> None:
    for name in sizes.DEPTHS:
        if name in small or name in defaults:
            small[name] = len(kept)
    if "num_kv_shared_layers" in small or "num_kv_shared_layers" in defaults:
        small["num_kv_shared_layers"] = sum(not _owns(geometry, index) for index in kept)
    if isinstance(small.get("first_k_dense_replace"), int):
        small["first_k_dense_replace"] = min(small["first_k_dense_replace"], len(kept) - 1)


def _resize(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _rope(value) if "rope" in name else {key: _resize(key, item) for key, item in value.items()}
    if isinstance(value, list) and name in sizes.FIXED:
        return [_resize(name, item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if name in sizes.FIXED:
        return value if value == 1 and name in sizes.ONE_STAYS else sizes.FIXED[name]
    return min(value, sizes.CAPPED[name]) if name in sizes.CAPPED else value


def _rope(scaling: dict[str, Any]) -> dict[str, Any]:
    """Rope settings hold no sizes but lists with one entry per rotated pair."""
    pairs = sizes.HEAD_DIM // 2
    return {
        name: value[:pairs] if name in ("long_factor", "short_factor") and isinstance(value, list) else value
        for name, value in scaling.items()
    }


def _nested_rope(text: Mapping[str, Any]) -> dict[str, Any]:
    rope = text.get("rope_parameters")
    return rope if isinstance(rope, dict) else {}


def _renumber(value: Any, kept: Sequence[int]) -> Any:
    if isinstance(value, str):
        listed = [int(index) for index in value.split(",") if index.strip()]
        return ",".join(str(new) for new, old in enumerate(kept) if old in listed)
    return [new for new, old in enumerate(kept) if old in value]


def _kinds(geometry: Geometry) -> list[str]:
    kinds = ["none"] * geometry.depth
    for layer in geometry.layers:
        kinds[layer.index] = layer.family
    return kinds


def _owns(geometry: Geometry, index: int) -> bool:
    layer = geometry.layer(index)
    return layer is None or layer.shares is None


def _prefix(kinds: Sequence[str]) -> int:
    """Length of the shortest prefix of whole periods with at least ENOUGH layers, or all there are."""
    period = _period(kinds)
    if period is None:
        wanted = {kind: min(2, count) for kind, count in Counter(kinds).items()}
        length = next(n for n in range(1, len(kinds) + 1) if _holds(kinds[:n], wanted))
    else:
        length = period * -(-min(ENOUGH, period * 2) // period)
    return min(max(length, 2), len(kinds))


def _period(kinds: Sequence[str]) -> int | None:
    for period in range(1, len(kinds) // 2 + 1):
        if all(kinds[index] == kinds[index - period] for index in range(period, len(kinds))):
            return period
    return None


def _holds(kinds: Sequence[str], wanted: Mapping[str, int]) -> bool:
    counts = Counter(kinds)
    return all(counts[kind] >= count for kind, count in wanted.items())
