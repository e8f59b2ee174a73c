"""What each policy makes of a mask that does not fit, on the shapes of the public reports."""

import numpy as np
import pytest

from mlxdiag.errors import UsageError
from mlxdiag.replay import masks, misfit


def decide(policy, **shape):
    return misfit.decide(policy, **shape)


def test_a_mask_that_fits_is_used_under_every_policy():
    for policy in misfit.POLICIES:
        assert decide(policy, q=4, k=9, m=9, window=4).fate == "used"


def test_strict_leaves_the_misfit_to_the_library():
    assert decide("strict", q=160, k=671, m=160, window=512) == misfit.Decision("used")


def test_raise_refuses_a_short_mask_in_the_words_of_the_first_fix():
    with pytest.raises(misfit.GuardRaised, match=r"\(9\) is shorter than the returned key length \(10\)"):
        decide("raise", q=2, k=10, m=9, window=8)


def test_raise_crops_a_long_mask():
    assert decide("raise", q=7, k=308, m=563, window=1024).crop == "old"


def test_the_windowed_fallback_equals_the_rebuilt_mask_on_chronological_keys():
    fallen = decide("discard:windowed", q=160, k=671, m=160, window=512)
    rebuilt = decide("rebuild", q=160, k=671, m=160, window=512)
    assert (fallen.fate, fallen.fallback) == ("discarded", "windowed")
    np.testing.assert_array_equal(fallen.mask, rebuilt.mask)


def test_the_fallback_of_a_full_layer_is_named_causal():
    assert decide("discard:windowed", q=160, k=2208, m=160, window=None).fallback == "causal"
    assert decide("discard:sliced", q=160, k=2208, m=160, window=None).fallback == "causal"


def test_the_causal_fallback_loses_the_window():
    mask = decide("discard:causal", q=160, k=671, m=160, window=512).mask
    assert mask.sum(axis=1).max() == 671


def test_the_sliced_fallback_keeps_the_last_window_of_keys_and_strands_rows():
    decision = decide("discard:sliced", q=768, k=1536, m=100, window=512)
    assert decision.keys == (1024, 1536)
    assert int((~decision.mask.any(axis=1)).sum()) == 256


def test_no_fallback_means_no_mask_at_all():
    assert decide("discard:none", q=160, k=671, m=160, window=512).unmasked


@pytest.mark.parametrize(("policy", "columns"), [("crop:old", (3, 11)), ("crop:new", (0, 8))])
def test_a_long_mask_is_cut_at_the_named_end(policy, columns):
    decision = decide(policy, q=4, k=8, m=11, window=None)
    assert (decision.fate, decision.mask_columns) == ("cropped", columns)


@pytest.mark.parametrize(("policy", "keys"), [("crop:old", (1024, 1536)), ("crop:new", (0, 512))])
def test_a_short_mask_cuts_the_keys_instead(policy, keys):
    decision = decide(policy, q=768, k=1536, m=512, window=512)
    assert (decision.fallback, decision.keys) == ("sliced", keys)


def test_the_rebuilt_mask_is_the_window_over_the_live_keys():
    np.testing.assert_array_equal(decide("rebuild", q=5, k=12, m=5, window=8).mask, masks.window(5, 7, 8))


def test_policies_are_parsed_in_order_and_once():
    assert misfit.parse("strict, rebuild,strict") == ("strict", "rebuild")


@pytest.mark.parametrize("text", ["", "discard", "strict,discard:all"])
def test_an_unknown_policy_names_the_known_ones(text):
    with pytest.raises(UsageError, match="discard:windowed"):
        misfit.parse(text)
