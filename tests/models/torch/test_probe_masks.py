"""How a mask was made, noted on the mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache, masking_utils

from mlxdiag.models.torch.probe import Probe
from mlxdiag.models.torch.probe_masks import UNKNOWN, Made, made
from tests.models.torch.probing import instance


def build(name: str, padding: Any = None, attention: str = "eager", **more: Any) -> Any:
    config = instance("llama4_text" if "chunked" in name else "gemma3_text", attention).model.config
    cache = DynamicCache(config=config)
    with Probe(lambda _: None):
        create = getattr(masking_utils, name)
        return create(
            config=config,
            inputs_embeds=torch.zeros(1, 12, 8),
            attention_mask=padding,
            cache=cache,
            position_ids=None,
            **more,
        )


@pytest.mark.parametrize(
    ("name", "padding", "expected"),
    [
        ("create_causal_mask", None, Made("causal", None)),
        ("create_causal_mask", torch.ones(1, 12), Made("padded", 12)),
        ("create_causal_mask", torch.ones(1, 5), Made("padded", 5)),
        ("create_sliding_window_causal_mask", None, Made("window", None)),
        ("create_sliding_window_causal_mask", torch.ones(1, 30), Made("window", 30)),
        ("create_chunked_causal_mask", None, Made("window", None)),
    ],
)
def test_masks_of_the_library(name: str, padding: Any, expected: Made) -> None:
    assert made(build(name, padding)) == expected


def test_a_pattern_of_the_models_own_is_not_named() -> None:
    def both_ways(*_: Any) -> Any:
        return torch.tensor(True)

    assert made(build("create_causal_mask", or_mask_function=both_ways)) == Made(None, None)


def test_a_callers_mask_and_no_mask_are_unknown() -> None:
    given = torch.zeros(1, 1, 12, 12)
    assert build("create_causal_mask", given) is given
    assert made(given) is UNKNOWN
    assert build("create_causal_mask", attention="sdpa") is None
    assert made(None) is UNKNOWN


def test_the_mask_itself_is_the_librarys() -> None:
    noted = build("create_sliding_window_causal_mask", torch.ones(1, 5))
    config = instance("gemma3_text", "eager").model.config
    plain = masking_utils.create_sliding_window_causal_mask(
        config=config,
        inputs_embeds=torch.zeros(1, 12, 8),
        attention_mask=torch.ones(1, 5),
        cache=DynamicCache(config=config),
        position_ids=None,
    )
    assert torch.equal(noted, plain)
    assert made(plain) is UNKNOWN
