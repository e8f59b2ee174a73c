"""What the model entry says of a transformers model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3ForCausalLM

from mlxdiag.record.torch.announce import announce, ids_of, setting
from tests.record import words
from tests.record.torch import models


def test_layers_and_kinds_are_those_of_the_config() -> None:
    entry, geometry = announce(models.build(), "m1")
    assert geometry is not None
    assert (entry.phase, entry.model, entry.architecture) == ("model", "m1", "gemma3_text")
    assert entry.layers is not None
    assert {name: (f.attention, f.window, f.layers) for name, f in entry.layers.items()} == {
        "sliding": ("sliding", models.WINDOW, [0]),
        "full": ("full", None, [1]),
    }
    assert entry.config is not None
    assert entry.config["layer_types"] == ["sliding_attention", "full_attention"]


def test_of_a_directory_only_its_last_name_is_told_and_its_special_ids(tmp_path: Path) -> None:
    saved = models.save(tmp_path / "secret" / "tiny")
    entry, _ = announce(Gemma3ForCausalLM.from_pretrained(saved), "m1")
    assert entry.name == "tiny"
    assert entry.tokens is not None
    assert (entry.tokens.pad, entry.tokens.eos) == (0, [1])
    assert entry.tokens.control == list(range(len(words.SPECIALS)))


def test_generation_may_end_and_pad_where_the_config_does_not_say() -> None:
    model = models.build()
    model.generation_config.eos_token_id = [1, 106]
    model.generation_config.pad_token_id = 7
    entry, _ = announce(model, "m1")
    assert entry.tokens is not None
    assert (entry.tokens.eos, entry.tokens.pad) == ([1, 106], 7)


def test_a_kind_of_layer_that_nobody_knows_is_not_observed() -> None:
    model = models.build()
    model.config.layer_types = ["sliding_attention", "telepathy"]
    entry, geometry = announce(model, "m1")
    assert geometry is None
    assert entry.layers is None
    assert "telepathy" in (entry.note or "")


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (None, []),
        (7, [7]),
        ([7, 9], [7, 9]),
        (torch.tensor([7, 9]), [7, 9]),
        (torch.tensor(7), [7]),
        (torch.empty(2, device="meta"), []),
    ],
)
def test_ids_are_one_several_or_none(value: Any, ids: list[int]) -> None:
    assert ids_of(value) == ids


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_setting_of_a_model_is_its_device_and_its_attention(implementation: str) -> None:
    model = models.build(attn_implementation=implementation)
    assert setting(model) == {"device": "cpu", "attention": implementation}
    assert setting(model.to("meta"))["device"] == "meta"
