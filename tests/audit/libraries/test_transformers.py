"""transformers under the audit: what is right passes, what is refused is no fault, what is broken is seen."""

import numpy as np
import pytest

from tests.audit.libraries.torch_cells import cell, family, line

from mlxdiag.audit.libraries import table  # isort: skip
from transformers import cache_utils, masking_utils  # isort: skip


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("gemma3_text", "chunks-above-window"),
        ("gemma3_text:eager", "left-padding-after-wrap"),
        ("gemma3_text", "speculative-after-wrap"),
        ("gemma3_text", "rows-leave"),
        ("gemma3_text", "static-continue-after-wrap"),
        ("gemma3_text", "right-padding-scored"),
        ("gpt_oss", "interleaved"),
        ("gpt_oss", "no-cache"),
        ("llama4_text", "continue-after-wrap"),
        ("llama", "quantized-cache"),
        ("llama", "save-and-load"),
    ],
)
def test_what_the_library_does_right_passes(name, scenario):
    found = cell(name, scenario)
    assert (found.result, found.reason) == ("pass", "")
    assert found.library == "transformers"
    assert found.judged["parity"] > 0
    assert found.judged["visibility"] > 0 or scenario == "quantized-cache"


@pytest.mark.parametrize(
    ("name", "scenario", "says"),
    [
        ("gemma3_text", "trim-after-wrap-chunk", "does not track past states"),
        ("gemma3_text", "static-trim", "is_croppable is false here (StaticSlidingWindowLayer)"),
        ("qwen3_next", "speculative-before-wrap", "is_croppable is false here (LinearAttentionLayer)"),
        ("gemma3_text", "quantized-cache", "only supported for models with only full attention layers"),
    ],
)
def test_what_the_library_declines_is_no_fault(name, scenario, says):
    found = cell(name, scenario)
    assert found.result == "unsupported"
    assert says in found.reason


def test_a_convolution_that_was_not_fed_yet_is_not_taken_at_its_word():
    """It knows only then that it will have no recurrent state, and says no until it does."""
    instance = family("lfm2")[0]
    (held,) = caches = instance.new_cache()
    assert not all(layer.is_croppable for layer in held.cache.layers)
    assert table.named("transformers").untrimmable(caches) is None
    instance.forward(np.arange(1, 6)[None], caches)
    assert all(layer.is_croppable for layer in held.cache.layers)


def test_a_crop_behind_a_crop_loses_keys_without_a_word():
    found = cell("gemma3_text", "crop-after-crop")
    assert found.result == "crash"
    assert "MD901" in found.codes
    assert found.where.startswith("transformers/models/gemma3/modeling_gemma3.py:")


def test_a_temperature_that_counts_padding_is_seen_by_parity_alone():
    found = cell("llama4_text", "left-padding-as-heads")
    assert (found.result, found.codes, found.oracles) == ("fail", ["MD402"], ["parity"])


def test_a_window_one_too_wide_is_seen_and_the_line_that_asked_for_the_mask_is_named(monkeypatch):
    right = masking_utils.sliding_window_overlay
    family("gemma3_text")
    monkeypatch.setattr(masking_utils, "sliding_window_overlay", lambda window: right(window + 1))
    found = cell("gemma3_text", "chunks-above-window")
    assert found.result == "fail"
    assert "visibility" in found.oracles
    assert "MD302" in found.codes
    # The masks of both kinds of layers come out of one dictionary.
    assert "mask" in line(found.where)


def test_a_lost_scale_of_a_quantised_cache_is_seen_by_parity(monkeypatch):
    right = cache_utils.Fp8QuantizedLayer.update

    def update(self, keys, values, *args, **kwargs):
        returned = right(self, keys, values, *args, **kwargs)
        return returned if returned[0] is keys else (returned[0], 1.05 * returned[1])

    monkeypatch.setattr(cache_utils.Fp8QuantizedLayer, "update", update)
    found = cell("llama", "quantized-cache")
    assert (found.result, found.oracles) == ("fail", ["parity"])


def test_the_weights_are_put_back_after_the_noise_was_measured():
    instance, _, floor = family("llama")
    assert 0 < floor < 2e-4
    fresh = table.named("transformers").tiny("llama", 0)
    for (name, value), other in zip(instance.model.named_parameters(), fresh.model.parameters(), strict=True):
        assert bool((value == other).all()), name


def test_a_row_of_another_implementation_runs_it_and_keeps_its_name():
    instance = family("gemma3_text:eager")[0]
    assert (instance.name, instance.attention) == ("gemma3_text:eager", "eager")
    assert family("gemma3_text")[0].attention == "sdpa"
