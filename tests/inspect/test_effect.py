"""A fallback is right exactly when the mask it amounts to shows each query what it must see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import benign_verify, fallback_is_right, in_effect, key_axis
from mlxdiag.inspect.visibility import observe
from mlxdiag.traces.types import Attention, Entry

FALLBACKS = ("windowed", "causal", "sliced", "oldest", "none")


def call(**fields):
    return Call(entry=Entry(), attention=Attention(), index=0, **fields)


def fallback_mask(fallback, q, k, window):
    """What the fallbacks amount to on chronological keys, as the consumers in mlxcel build them; oldest as
    the sdpa attention of transformers does."""
    if fallback == "oldest":
        return np.tri(q, k, dtype=bool)
    query, key = np.arange(q)[:, None] + k - q, np.arange(k)[None]
    causal = key <= query
    if fallback == "windowed":
        return causal if window is None else causal & (key > query - window)
    if fallback == "sliced" and window is not None and k > window:
        capped = np.arange(window)[None] <= np.arange(q)[:, None] + window - q
        return np.concatenate([np.zeros((q, k - window), dtype=bool), capped], axis=1)
    return np.ones((q, k), dtype=bool) if fallback == "none" else causal


@given(
    st.sampled_from(FALLBACKS),
    st.sampled_from(["full", "sliding"]),
    st.integers(1, 6),
    st.integers(0, 14),
    st.integers(2, 8),
)
def test_right_means_that_every_query_sees_what_it_must(fallback, kind, q, cursor, window):
    bound = window if kind == "sliding" else None
    kept = cursor if bound is None else min(cursor, bound - 1)
    k = kept + q
    positions = np.arange(cursor - kept, cursor + q)[None]
    queries = np.arange(cursor, cursor + q)[None]
    seen = observe(
        fallback_mask(fallback, q, k, bound)[None],
        np.zeros_like(positions),
        positions,
        np.zeros_like(queries),
        queries,
        np.ones_like(queries, dtype=bool),
        kind=kind,
        window=bound,
    )
    told = call(kind=kind, window=bound, q=q, k=k, cursor=cursor, fallback=fallback, fate="discarded")
    assert fallback_is_right(told) == (seen["totals"]["wrong_queries"] == 0)


def test_nothing_is_right_that_was_not_observed():
    assert not fallback_is_right(call(kind="full", q=2, k=4))
    assert not fallback_is_right(call(kind="sliding", q=2, k=4, fallback="windowed"))
    assert not fallback_is_right(call(q=2, k=4, window=8, fallback="windowed"))


def test_pinned_sinks_shift_the_columns_of_a_band():
    held = {"kind": "sliding", "window": 8, "q": 2, "k": 9, "fallback": "windowed"}
    assert fallback_is_right(call(**held))
    assert not fallback_is_right(call(**held, keep=2))


@pytest.mark.parametrize(
    ("fields", "effect"),
    [
        ({"mask_kind": "none"}, "none"),
        ({"mask_kind": "none", "fallback": "windowed"}, "windowed"),
        ({"mask_kind": "causal"}, "causal"),
        ({"mask_kind": "array"}, "array"),
        ({"mask_kind": "array", "builder": "padded"}, "causal"),
        ({"mask_kind": "array", "builder": "window"}, "array"),
        ({"mask_kind": "array", "fate": "discarded", "fallback": "causal"}, "causal"),
        ({"mask_kind": "array", "fate": "discarded"}, None),
        ({"mask_kind": "array", "fate": "rebuilt"}, "windowed"),
        ({"mask_kind": "array", "fate": "rejected"}, None),
        ({}, None),
    ],
)
def test_what_attention_worked_with(fields, effect):
    assert in_effect(call(**fields)) == effect


@pytest.mark.parametrize(
    ("change", "benign"),
    [
        ({}, True),
        ({"cache": "rotating"}, False),
        ({"fallback": "causal"}, False),
        ({"fallback": None}, False),
        ({"m": 8}, False),
        ({"k": 9, "m": 9}, False),
        ({"fate": "rejected"}, False),
    ],
)
def test_nine_against_ten_is_benign_on_a_buffered_ring_only(change, benign):
    """lablup/mlxcel#891: window 8, prompt 8, block 2; mask 9, keys 10."""
    verify = {
        "cache": "buffered",
        "bound": 8,
        "q": 2,
        "m": 9,
        "k": 10,
        "fallback": "windowed",
        "fate": "discarded",
    }
    assert benign_verify(call(**{**verify, **change})) is benign


@pytest.mark.parametrize(("m", "expected"), [(12, 12), (18, 18), (10, 12), (15, 18), (20, 18), (None, 18)])
def test_packed_rows_may_be_summed_or_padded_to_the_longest(m, expected):
    assert key_axis(call(m=m, ks=[12, 6])) == expected
