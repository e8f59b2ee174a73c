"""The first value that differs, over values made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mlxdiag.audit.across.parting import parting
from mlxdiag.models.inside import Spot, Value
from mlxdiag.replay.ops import Feed

FEED = Feed(seq="a", start=10, tokens=4)
DRAW = np.random.default_rng(3)
BASE = DRAW.normal(size=(1, 4, 6)).astype(np.float32)


def value(spot: Spot, array: np.ndarray = BASE) -> Value:
    return Value(spot, array)


def changed(token: int, by: float = 1.0, array: np.ndarray = BASE) -> np.ndarray:
    other = array.copy()
    other[0, token] += by
    return other


IN, NORM, OUT = Spot(2, "", "in"), Spot(2, "input_layernorm", "out"), Spot(2, "", "out")


def test_the_first_in_the_order_of_the_forward_counts() -> None:
    ours = [value(IN), value(NORM), value(OUT)]
    theirs = [value(OUT, changed(0)), value(NORM, changed(2)), value(IN)]
    found = parting(ours, theirs, [FEED], 4)
    assert found is not None
    assert (found.layer, found.part, found.end, found.position) == (2, "input_layernorm", "out", 12)
    assert found.agreed == "layer (in)"
    assert found.by == pytest.approx(1.0 / float(BASE.std()), rel=1e-6)


def test_rounding_is_no_difference() -> None:
    assert parting([value(IN)], [value(IN, BASE * np.float32(1 + 1e-6))], [FEED], 4) is None


def test_values_without_a_namesake_or_of_another_shape_are_left_out() -> None:
    packed = Spot(2, "self_attn.qkv_proj", "out")
    ours = [value(packed), value(NORM), value(OUT)]
    theirs = [value(NORM, BASE[..., :3]), value(OUT, changed(1))]
    found = parting(ours, theirs, [FEED], 4)
    assert found is not None
    assert (found.part, found.position, found.agreed) == ("", 11, "")


def test_padding_does_not_count() -> None:
    feed = Feed(seq="a", start=0, tokens=3, left=1)
    assert parting([value(IN)], [value(IN, changed(0))], [feed], 4) is None
    found = parting([value(IN)], [value(IN, changed(1))], [feed], 4)
    assert found is not None
    assert found.position == 0


def test_what_comes_behind_the_wrong_position_does_not_count() -> None:
    feed = Feed(seq="a", start=10, tokens=2)
    assert parting([value(IN)], [value(IN, changed(2))], [feed], 4) is None


def test_rows_without_a_token_that_counts_are_passed_over() -> None:
    two = np.concatenate([BASE, BASE])
    other = two.copy()
    other[0, 0] += 1
    other[1, 3] += 1
    feeds = [Feed(seq="a", start=0, tokens=0), Feed(seq="b", start=5, tokens=4)]
    found = parting([value(IN, two)], [value(IN, other)], feeds, 4)
    assert found is not None
    assert (found.seq, found.position) == ("b", 8)


def test_experts_see_tokens_without_a_batch() -> None:
    flat = BASE.reshape(4, 6)
    other = changed(3).reshape(4, 6)
    found = parting([value(NORM, flat)], [value(NORM, other)], [FEED], 4)
    assert found is not None
    assert found.position == 13


def test_heads_may_come_before_tokens_in_one_library() -> None:
    heads = DRAW.normal(size=(1, 4, 2, 3)).astype(np.float32)
    turned = np.ascontiguousarray(heads.swapaxes(1, 2))
    for ours, theirs in ((heads, turned), (turned, heads)):
        assert parting([value(NORM, ours)], [value(NORM, theirs)], [FEED], 4) is None
    found = parting([value(NORM, turned)], [value(NORM, changed(3, array=heads))], [FEED], 4)
    assert found is not None
    assert (found.part, found.position) == ("input_layernorm", 13)
    small = heads[0, 3]
    assert found.relative == pytest.approx(
        float((1 / np.maximum(abs(small), abs(small + 1))).max()), rel=1e-5
    )


def test_not_a_number_is_a_difference() -> None:
    found = parting([value(IN)], [value(IN, changed(2, np.nan))], [FEED], 4)
    assert found is not None
    assert (found.position, found.by) == (12, np.inf)


def test_a_rounded_value_says_how_near_it_is() -> None:
    rounded = (BASE.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    found = parting([value(IN)], [value(IN, rounded)], [FEED], 4)
    assert found is not None
    assert 2**-12 < found.relative < 2**-7
