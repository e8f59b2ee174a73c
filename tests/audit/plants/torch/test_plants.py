"""A handful of planted faults in transformers; the whole is `python -m bench --only plants-torch`."""

import pytest

from tests.audit.libraries.torch_cells import family

from mlxdiag.audit.plants import trials  # isort: skip
from mlxdiag.audit.plants.torch.plants import PLANTS  # isort: skip
from mlxdiag.audit.schedules.scenarios import named  # isort: skip

BY_NAME = {plant.name: plant for plant in PLANTS}


@pytest.mark.parametrize(
    ("plant", "name", "scenario", "oracle"),
    [
        ("window-one-wide", "gemma3_text", "chunks-above-window", "visibility"),
        ("window-dropped", "gpt_oss", "continue-after-wrap", "visibility"),
        ("mask-stale", "gemma3_text", "chunks-below-window", "visibility"),
        ("padding-shown", "gemma3_text:eager", "left-padding-as-heads", "visibility"),
        ("blocks-dropped", "llama4_text", "chunks-below-window", "visibility"),
        ("keys-clamped", "gemma3_text", "chunks-equal-window", "geometry"),
        ("crop-one-short", "gemma3_text", "speculative-after-wrap", "geometry"),
        ("rows-rolled", "gemma3_text", "rows-leave", "visibility"),
        ("first-layer-shared", "llama", "interleaved", "crash"),
        ("state-lost", "lfm2", "chunks-not-dividing", "parity"),
        ("static-offset-ahead", "gemma3_text", "static-chunks", "visibility"),
        ("scale-lost", "llama", "quantized-cache", "parity"),
        ("rope-ahead", "llama", "decode-across-window", "parity"),
    ],
)
def test_a_planted_fault_is_found_by_the_oracle_that_can_see_it(plant, name, scenario, oracle):
    instance, _, floor = family(name)
    (attempt,) = trials.attempts(instance, named(scenario), [BY_NAME[plant]], noise=floor)
    assert attempt.observable
    assert attempt.killed
    assert oracle in attempt.caught_by


def test_names_are_unique_and_the_library_is_as_it_was():
    from transformers import masking_utils

    assert len(BY_NAME) == len(PLANTS)
    assert not hasattr(masking_utils.sliding_window_overlay, "__wrapped__")
