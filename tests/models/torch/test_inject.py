"""Masks that a caller hands in reach the kernel of exactly their layers."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")

import torch
from transformers.modeling_utils import AttentionInterface

from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import USE_LIBRARY, Geometry, LayerSpec
from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.inject import as_given, caller_masks
from mlxdiag.models.torch.probe_functions import ADDED, SDPA

IDS = np.random.default_rng(1).permutation(500)[:12][None]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_mask_that_hides_the_first_key_hides_it_from_the_layers_that_were_given_it(attention):
    instance = zoo.tiny("llama", attention=attention, device="cpu")
    mask = np.tri(12, dtype=bool)
    mask[1:, 0] = False
    other = IDS.copy()
    other[0, 0] = 501

    def last(ids, chooser):
        with caller_masks(instance.geometry, chooser):
            return instance.backend.read(instance.forward(ids, instance.new_cache()))[0, -1]

    def hidden(_layer):
        return mask

    assert np.abs(last(IDS, hidden) - last(other, hidden)).max() == 0
    plain = last(IDS, lambda _: USE_LIBRARY)
    assert np.abs(plain - last(other, lambda _: USE_LIBRARY)).max() > 0.01
    assert np.abs(plain - last(IDS, lambda _: "causal")).max() < 1e-5


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_no_mask_is_none_at_all_and_not_what_sdpa_takes_it_for(attention):
    instance = zoo.tiny("llama", device="cpu", attention=attention)
    other = [[*IDS[0][:-1], IDS[0][-1] + 1]]

    def first(ids, chosen):
        with caller_masks(instance.geometry, lambda _: chosen):
            return np.asarray(instance.forward(np.array(ids), instance.new_cache())[0, 0])

    assert np.abs(first(IDS, USE_LIBRARY) - first(other, USE_LIBRARY)).max() == 0
    assert np.abs(first(IDS, None) - first(other, None)).max() > 0.01


def test_the_original_is_back_even_when_a_mask_does_not_fit():
    before = AttentionInterface.get_interface
    instance = zoo.tiny("llama", device="cpu")
    with (
        pytest.raises(RuntimeError, match="must match the size"),
        caller_masks(instance.geometry, lambda _: np.ones((12, 5), bool)),
    ):
        instance.forward(IDS, instance.new_cache())
    assert AttentionInterface.get_interface is before


def test_a_family_without_a_mask_from_outside_is_refused():
    layers = (LayerSpec(index=0, family="full", attention="full", softmax="manual"),)
    with (
        pytest.raises(UsageError, match="by_hand"),
        caller_masks(Geometry(architecture="by_hand", layers=layers, depth=1), lambda _: None),
    ):
        pass


def test_the_form_is_the_one_that_the_library_gives_to_each_kind():
    q, k = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4)
    seen = np.tri(3, 5, 2, dtype=bool)
    assert as_given(None, q, k, SDPA) is None
    assert as_given("causal", q, k, SDPA).tolist() == [[seen.tolist()]]
    assert as_given("causal", q, q, SDPA) is None  # which sdpa takes for causal
    added = as_given(seen, q, k, ADDED)
    assert added[0, 0][~torch.from_numpy(seen)].unique().tolist() == [torch.finfo(torch.float32).min]
    assert (added == 0).sum() == seen.sum()
