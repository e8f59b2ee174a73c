"""The faults that are planted in transformers, all of them: the visible tuple."""

from __future__ import annotations

from collections.abc import Mapping

from mlxdiag.audit.plants.plant import Plant
from mlxdiag.audit.plants.torch import keys, masks, positions
from mlxdiag.audit.plants.torch.bed import Install

_CONTENT = {"geometry": "shapes and counters are right; only what they hold is wrong"}
_POSITION = {"visibility": "the right keys are attended, at a wrong position"}
_VALUES = {**_CONTENT, "visibility": "the state of a recurrent layer, or a value, is no key"}
_EVERYWHERE = {**_CONTENT, "parity": "where every path has the fault, the single pass has it too"}
_CROPS = ("trim", "reuse")


def _plant(
    name: str, title: str, install: Install, *groups: str, blind: Mapping[str, str] | None = None
) -> Plant:
    return Plant(name=name, title=title, install=install, groups=groups, blind=blind or {})


PLANTS: tuple[Plant, ...] = (
    _plant(
        "window-one-wide",
        "the window of sliding masks is one too wide",
        masks.window(lambda w: w + 1),
        blind=_EVERYWHERE,
    ),
    _plant(
        "window-one-narrow",
        "the window of sliding masks is one too narrow",
        masks.window(lambda w: w - 1),
        blind=_EVERYWHERE,
    ),
    _plant(
        "window-dropped",
        "sliding masks are plain causal",
        masks.window(lambda _: masks.EVERYTHING),
        blind=_EVERYWHERE,
    ),
    _plant(
        "future-visible", "the causal diagonal is one too far right", masks.future_visible, blind=_CONTENT
    ),
    _plant("mask-stale", "masks are built from an offset of before", masks.stale_offset, blind=_CONTENT),
    _plant(
        "padding-shown",
        "padding in front of a row is not masked",
        masks.padding_shown,
        "batch",
        "static",
        blind=_CONTENT,
    ),
    _plant("blocks-dropped", "chunked attention is plain causal", masks.blocks_dropped, blind=_EVERYWHERE),
    _plant("keys-clamped", "a continuation keeps the last W keys only", keys.keys_clamped),
    _plant("oldest-dropped", "a full layer returns all keys but the oldest", keys.oldest_dropped),
    _plant("ring-one-small", "sliding layers keep one key less", keys.ring_sized(-1)),
    _plant("ring-one-large", "sliding layers keep one key more", keys.ring_sized(1), blind=_VALUES),
    _plant("crop-one-short", "a crop takes back one token less", keys.crop_by(-1), *_CROPS),
    _plant("crop-one-long", "a crop takes back one token more", keys.crop_by(1), *_CROPS),
    _plant("crop-skips-a-layer", "a crop is not honoured on one layer", keys.crop_skips_a_layer, *_CROPS),
    _plant("rows-rolled", "rows leave a batch one too far", keys.rows_rolled, "batch", blind=_CONTENT),
    _plant("first-layer-shared", "sequences share the first layer's keys", keys.first_layer_shared),
    _plant("state-lost", "convolutions lose what came before", keys.state_lost, blind=_VALUES),
    _plant(
        "static-offset-ahead",
        "a static window places its keys one further",
        keys.static_offset_ahead,
        "static",
        blind=_CONTENT,
    ),
    _plant(
        "scale-lost", "values come back from 8 bits too large", keys.scale_lost, "quantized", blind=_VALUES
    ),
    _plant("rope-ahead", "single tokens are placed one further", positions.ahead_in_decode, blind=_POSITION),
)
"""In the order of the table."""
