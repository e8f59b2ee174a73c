"""The planted faults, all of them: the visible tuple."""

from __future__ import annotations

from collections.abc import Mapping

from mlxdiag.audit.plants import batches, keys, late, masks, states, store
from mlxdiag.audit.plants.bed import Install
from mlxdiag.audit.plants.plant import Plant

_CONTENT = {"geometry": "shapes and counters are right; only what they hold is wrong"}
_POSITION = {"visibility": "the right keys are attended, at a wrong position"}
_VALUES = {
    **_CONTENT,
    "visibility": "a key is known by the content that it has; the state of a recurrent layer is no key",
}
_UNCAPPED = ("prefill", "decode", "trim", "reuse", "quantized", "batch", "isolation")
"""A capped ring shows its pinned keys to several tokens or hides them, as the chunks fall: both are right, so
that a mask which lets one key more be seen is no fault there."""
_CRASHES = dict.fromkeys(("visibility", "parity"), "the call cannot run, so that there is nothing to see")
_CAPPED = {
    "geometry": "the ring holds as many keys as it should, only others",
    "parity": "under a cap the reference is given the keys that were seen",
}
_EVERYWHERE = {**_CONTENT, "parity": "where every path has the fault, the single pass has it too"}


def _plant(
    name: str,
    title: str,
    install: Install,
    *groups: str,
    blind: Mapping[str, str] | None = None,
) -> Plant:
    return Plant(name=name, title=title, install=install, groups=groups, blind=blind or {})


PLANTS: tuple[Plant, ...] = (
    _plant(
        "window-one-wide",
        "the window of sliding masks is one too wide",
        masks.window(lambda w: w + 1),
        *_UNCAPPED,
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
        *_UNCAPPED,
        blind=_EVERYWHERE,
    ),
    _plant("blocks-dropped", "chunked attention is plain causal", masks.blocks_dropped, blind=_EVERYWHERE),
    _plant(
        "future-visible", "the causal diagonal is one too far right", masks.future_visible, blind=_CONTENT
    ),
    _plant("self-hidden", "the causal diagonal is one too far left", masks.self_hidden, blind=_EVERYWHERE),
    _plant(
        "mask-stale",
        "masks are built from the offset of the call before",
        masks.stale_offset(False),
        blind=_CRASHES,
    ),
    _plant(
        "mask-stale-fitted",
        "masks are built from the offset of the call before, then filled up to the keys",
        masks.stale_offset(True),
        blind=_CONTENT,
    ),
    _plant(
        "sinks-dropped",
        "learned sinks are left out of single-token calls",
        masks.sinks_dropped,
        blind=_VALUES,
    ),
    _plant("keys-clamped", "a continuation keeps the last W keys only", keys.keys_clamped),
    _plant("oldest-dropped", "a dense cache returns all keys but the oldest", keys.oldest_dropped),
    _plant("offset-slips", "the second update overwrites the newest key", keys.offset_slips),
    _plant("ring-one-small", "rings hold one key less than they are asked to", keys.ring_sized(-1)),
    _plant(
        "ring-one-large", "rings hold one key more than they are asked to", keys.ring_sized(1), blind=_CAPPED
    ),
    _plant(
        "ring-restarts-late", "a full ring goes on one slot late", keys.ring_restarts_late, blind=_CONTENT
    ),
    _plant(
        "pinned-sinks-lost",
        "a capped ring lets its pinned keys go",
        keys.pinned_sinks_lost,
        "cap",
        blind=_CAPPED,
    ),
    _plant("trim-one-short", "a trim takes back one token less", keys.trim_by(-1), "decode", "trim", "reuse"),
    _plant("trim-one-long", "a trim takes back one token more", keys.trim_by(1), "decode", "trim", "reuse"),
    _plant(
        "trim-skips-a-layer",
        "a trim is not honoured on one layer",
        keys.trim_skips_a_layer,
        "decode",
        "trim",
        "reuse",
    ),
    _plant(
        "trim-keeps-cursor",
        "a ring's trim keeps its cursor",
        keys.cursor_kept_by_trim,
        "decode",
        "trim",
        "reuse",
    ),
    _plant(
        "quantised-group-lost",
        "quantising loses a group",
        keys.quantised_group_lost,
        "quantized",
        blind=_VALUES,
    ),
    _plant(
        "quantised-offset-short",
        "quantising loses the newest token",
        keys.quantised_offset_short,
        "quantized",
    ),
    _plant(
        "left-padding-visible",
        "padding in front of a row is not masked",
        batches.left_padding_visible,
        "batch",
        blind=_CONTENT,
    ),
    _plant(
        "padding-in-state",
        "recurrent layers take padding for tokens",
        batches.padding_in_state,
        "batch",
        blind=_VALUES,
    ),
    _plant(
        "padding-not-counted-down",
        "recurrent layers forget what has passed",
        batches.padding_not_counted_down,
        "batch",
        blind=_VALUES,
    ),
    _plant(
        "finalize-skipped",
        "right padding is never rolled away",
        batches.finalize_skipped,
        "batch",
        blind=_CONTENT,
    ),
    _plant(
        "finalize-one-short",
        "one column of right padding stays",
        batches.finalize_one_short,
        "batch",
        blind=_CONTENT,
    ),
    _plant(
        "filter-keeps-neighbours", "a filter keeps the wrong rows", batches.filter_keeps_neighbours, "batch"
    ),
    _plant(
        "filter-keeps-paddings",
        "a filter keeps the first rows' paddings",
        batches.filter_keeps_paddings,
        "batch",
    ),
    _plant("extend-puts-in-front", "an extend misorders rows", batches.extend_puts_in_front, "batch"),
    _plant("extend-forgets-padding", "an extend counts no padding", batches.extend_forgets_padding, "batch"),
    _plant("merge-pads-more", "a merge counts one padding too many", batches.merge_pads(1), "batch"),
    _plant("merge-pads-less", "a merge counts one padding too few", batches.merge_pads(-1), "batch"),
    _plant(
        "merge-flattens-offsets",
        "a merge gives all rows one offset",
        batches.merge_flattens_offsets,
        "batch",
        blind=_POSITION,
    ),
    _plant(
        "merge-reverses-states",
        "a merge misorders recurrent states",
        batches.merge_reverses_states,
        "batch",
        blind=_VALUES,
    ),
    _plant("extract-one-short", "an extract loses the oldest key", batches.extract_one_short, "batch"),
    _plant(
        "extract-takes-neighbour",
        "an extract takes another state",
        batches.extract_takes_neighbour,
        "batch",
        blind=_VALUES,
    ),
    _plant(
        "first-rows-position",
        "all rows are placed as the first",
        batches.first_rows_position,
        "batch",
        blind=_POSITION,
    ),
    _plant("first-cache-shared", "sequences share the first layer's cache", states.first_cache_shared),
    _plant("state-on-the-layer", "sequences share recurrent state", states.state_on_the_layer, blind=_VALUES),
    _plant(
        "position-on-the-module", "sequences share a position", states.position_on_the_module, blind=_POSITION
    ),
    _plant("conv-state-lost", "recurrent layers lose their first state", states.state_lost(0), blind=_VALUES),
    _plant("memory-lost", "recurrent layers lose their last state", states.state_lost(-1), blind=_VALUES),
    _plant("rope-stale", "positions are a call old", states.rope_stale, blind=_POSITION),
    _plant(
        "rope-ahead", "single tokens are placed one further", states.rope_ahead_in_decode, blind=_POSITION
    ),
    _plant(
        "load-takes-buffer", "a load takes spare slots for keys", states.load_takes_buffer_for_offset, "reuse"
    ),
    _plant("load-loses-offset", "a load counts one token less", states.load_loses_offset, "reuse"),
    _plant(
        "load-loses-cursor",
        "a load forgets where a ring writes",
        states.load_loses_cursor,
        "reuse",
        blind=_CONTENT,
    ),
    _plant(
        "load-loses-state", "a load forgets recurrent state", states.load_loses_state, "reuse", blind=_VALUES
    ),
    _plant("load-swaps-layers", "a load swaps two layers", states.load_swaps_layers, "reuse"),
    _plant("entry-handed-out", "a stored prompt is handed out itself", store.entry_handed_out, "reuse"),
    _plant("hit-counts-more", "a stored prompt claims one token more", store.hit_counts_one_more, "reuse"),
    _plant(
        "longer-entry-cut", "a longer stored prompt is cut itself", store.longer_entry_handed_out, "reuse"
    ),
    _plant(
        "common-counts-more",
        "a stored prompt counts a token as common that is not",
        store.common_counts_one_more,
        "reuse",
    ),
    _plant(
        "quantised-load-takes-buffer",
        "a load takes a quantised cache's spare slots for keys",
        states.load_takes_quantised_buffer,
        "quantized",
    ),
    _plant(
        "filter-keeps-shifted-padding",
        "a filter counts padding on that it cut off",
        late.filter_keeps_shifted_padding,
        "batch",
    ),
    _plant(
        "filter-cuts-wrong-end",
        "a filter cuts the values at the wrong end",
        late.filter_cuts_values_at_the_end,
        "batch",
    ),
    _plant(
        "merge-takes-slots",
        "a merge takes a turned ring's slots for order",
        late.merge_takes_slots_for_order,
        "batch",
        blind=_CONTENT,
    ),
    _plant("ring-size-unbounded", "a ring's size goes on past its end", late.ring_size_unbounded, "batch"),
    _plant("growth-loses-newest", "a growing buffer loses its newest token", late.growth_loses_newest),
    _plant(
        "large-batches-sharpened",
        "batches of five rows have twice the scale",
        late.large_batches_sharpened,
        "batch",
        blind=_VALUES,
    ),
    _plant("positions-off-far-out", "positions from 40 on are one off", late.positions_off_far_out),
)
"""In the order of the table."""
