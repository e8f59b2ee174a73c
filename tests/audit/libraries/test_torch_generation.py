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
