"""The loops of transformers against the single pass, and what their numbers mean."""

import numpy as np
import pytest

from tests.audit.libraries.torch_cells import cell

from mlxdiag.audit.libraries import torch_generation  # isort: skip
from mlxdiag.audit.schedules.scenarios import DRIVEN  # isort: skip
from transformers import cache_utils  # isort: skip


@pytest.mark.parametrize("scenario", ["assisted", "beams", "generate-static", "continuous-batching"])
def test_the_loops_are_right(scenario):
    found = cell("gemma3_text", scenario)
    assert (found.result, found.reason) == ("pass", "")
    assert found.judged == {"parity": 3 if scenario == "beams" else 36}


def test_a_crop_that_keeps_a_rejected_token_is_seen_in_the_loop(monkeypatch):
    right = cache_utils.DynamicLayer.crop
    monkeypatch.setattr(cache_utils.DynamicLayer, "crop", lambda self, n: right(self, min(n + 1, 0)))
    found = cell("llama", "prompt-lookup")
    assert found.result in ("fail", "crash")
    assert found.trace


@pytest.mark.parametrize("scenario", ["assisted", "prompt-lookup"])
def test_a_loop_that_uses_a_cache_in_a_way_that_the_cache_forbids_crashes_and_is_not_refused(
    monkeypatch, scenario
):
    right = cache_utils.DynamicLayer.crop

    def wrong(self, n):
        if n + 1:
            right(self, n + 1)

    monkeypatch.setattr(cache_utils.DynamicLayer, "crop", wrong)
    found = cell("llama", scenario)
    assert (found.result, found.codes) == ("crash", ["MD906"])
    assert "is not supported" in found.reason
    assert "transformers/cache_utils.py" in found.where


def test_assisted_decoding_of_a_stateful_model_stays_refused():
    found = cell("jamba", "prompt-lookup")
    assert found.result == "unsupported"
    assert "not supported with stateful models" in found.reason


def test_a_model_without_a_head_is_skipped_with_the_reason():
    found = cell("diffusion_gemma_text", "beams")
    assert (found.result, found.judged) == ("skipped", {})
    assert "no head" in found.reason


def test_a_refusal_in_a_loop_is_no_fault():
    found = cell("lfm2", "continuous-batching")
    assert found.result == "unsupported"
    assert "Invalid layer type" in found.reason


def test_every_driven_scenario_has_its_function():
    assert all(callable(torch_generation.driver(name)) for name in DRIVEN)


def test_what_is_told_of_tokens_is_compared_as_what_it_is():
    logits = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], dtype=np.float32)
    exact = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    tokens = [2, 0]
    said = exact[[0, 1], tokens]
    whole = torch_generation.differences(logits, tokens, logits + np.array([[0, 0, 0], [0, 0, 0.5]]))
    assert whole == pytest.approx([0, 0.5])
    assert torch_generation.differences(logits, tokens, said + np.array([0.25, 0])) == pytest.approx(
        [0.25, 0], abs=1e-6
    )
    assert torch_generation.differences(logits, tokens, float(said.mean()) + 0.125) == pytest.approx(
        [0.125], abs=1e-6
    )
