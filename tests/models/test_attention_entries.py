"""Equal layers share one attention entry, and the family comes from the geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import UNSET

from mlxdiag.models import catalogue
from mlxdiag.models.attention_entries import Grouping
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import AttentionEvent, Event, Probe, StepEvent, to_attention


def call(layer: int, **changes: Any) -> AttentionEvent:
    event = AttentionEvent(layer, layer, "KVCache", "dense", None, None, None, None, 4, 4, 0, 4, 256, 2)
    event.k = event.k_seen = 6
    event.mask = "causal"
    for name, value in changes.items():
        setattr(event, name, value)
    return event


def test_a_forward_of_gemma3_has_two_entries() -> None:
    model = tiny.build(catalogue.config("gemma3_text"), window=8, positions=64)
    assert isinstance(model, MlxInstance)
    told: list[Event] = []
    with Probe(told.append) as probe:
        probe.watch(model.model)
        cache = model.new_cache()
        model.forward(np.arange(20)[None] + 3, cache)
        model.forward(np.arange(20, 26)[None] + 3, cache)
    step = told[-1]
    assert isinstance(step, StepEvent)
    sliding, full = to_attention(step.attention, model.geometry)
    of = {
        kind: [s.index for s in model.geometry.layers if s.attention == kind] for kind in ("sliding", "full")
    }
    assert (sliding.family, sliding.layers) == ("sliding", of["sliding"])
    assert (sliding.cache, sliding.window, sliding.offset, sliding.q, sliding.k) == ("rotating", 8, 20, 6, 13)
    assert (sliding.mask, sliding.rope, sliding.cursor, sliding.buffer) == ((6, 13), 20, None, 20)
    assert (full.family, full.layers, full.k, full.mask) == ("full", of["full"], 26, "causal")


def test_layers_that_differ_are_kept_apart_in_order() -> None:
    entries = to_attention([call(0), call(1, k=5), call(2), call(3, mask=None), call(4, mask=UNSET)])
    assert [(e.layers, e.k, e.mask) for e in entries] == [
        ([0, 2], 6, "causal"),
        ([1], 5, "causal"),
        ([3], 6, None),
        ([4], 6, UNSET),
    ]


def test_layers_whose_masks_were_made_otherwise_are_kept_apart() -> None:
    made = {"builder": "padded", "key_padding": 6}
    entries = to_attention([call(0, **made), call(1, **made | {"builder": "window"}), call(2, key_padding=6)])
    assert [(e.layers, e.builder, e.key_padding) for e in entries] == [
        ([0], "padded", 6),
        ([1], "window", 6),
        ([2], None, 6),
    ]
    narrower = to_attention([call(0, **made), call(1, **made | {"key_padding": 5})])
    assert [(e.layers, e.key_padding) for e in narrower] == [([0], 6), ([1], 5)]


def test_rows_at_one_offset_are_one_number() -> None:
    (entry,) = to_attention([call(0, kind="batch", offset=[4, 4], rope=[4, 3], cursor=7, live_start=3)])
    assert (entry.offset, entry.rope, entry.cursor, entry.live_start) == (4, [4, 3], 7, None)


def test_dropped_keys_are_told() -> None:
    (entry,) = to_attention([call(0, offset=10, cursor=10, live_start=6, live=4)])
    assert (entry.live_start, entry.live, entry.cursor) == (6, 4, None)


def test_keys_cut_to_the_mask_on_their_way_to_attention_are_told() -> None:
    """The cache returned 6 keys; that a program cut them before attention is seen by lengths alone."""
    cut, whole, gathered, intervened = to_attention(
        [
            call(0, mask=(2, 4), k_seen=4),
            call(1, mask=(2, 6)),
            call(2, mask="causal", k_seen=4),
            call(3, mask=(2, 4), k_seen=4, fate="used"),
        ]
    )
    assert (cut.k, cut.mask, cut.fallback) == (6, (2, 4), "sliced")
    assert [entry.fallback for entry in (whole, gathered, intervened)] == [None, None, None]


def test_observed_fields_join_the_entry_and_split_groups() -> None:
    entries = to_attention(
        [call(0), call(1), call(2)], observed=lambda event: {"visible": [[int(event.layer == 1)]]}
    )
    assert [(e.layers, e.visible) for e in entries] == [([0, 2], [[0]]), ([1], [[1]])]


def test_an_unknown_cache_class_names_no_kind() -> None:
    (entry,) = to_attention([call(0, kind="unknown")])
    assert entry.cache is None


def test_calls_in_short_are_grouped_as_those_in_full() -> None:
    model = tiny.build(catalogue.config("gemma3_text"), window=8, positions=64)
    assert isinstance(model, MlxInstance)
    told: list[Event] = []
    with Probe(told.append) as probe:
        probe.watch(model.model)
        cache = model.new_cache()
        for first, count in ((0, 20), (20, 6), (26, 1)):
            model.forward(np.arange(first, first + count)[None] + 3, cache)
    for step in told:
        assert isinstance(step, StepEvent)
        assert all(type(call) is tuple for call in step.calls)
        grouped = Grouping(model.geometry, {}).of(step.calls)
        whole = Grouping(model.geometry, model.geometry.families()).of(step.calls)
        full = to_attention(step.attention, model.geometry)
        assert (grouped, [entry.layers for entry in whole or ()]) == (full, [None, None])
        assert Grouping(model.geometry, {}).of(step.calls) is None, "events in full are another's to group"
