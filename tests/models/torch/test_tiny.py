from __future__ import annotations

from typing import Any

import pytest
import torch

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import catalogue
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.tiny import build
from tests.models.torch.visibility import ids

KNOWN = sorted(set(catalogue.CATALOGUE) - {"baichuan_m1"})


def made(config: dict[str, Any], **more: Any) -> TorchInstance:
    instance = build(config, **more)
    assert isinstance(instance, TorchInstance), str(instance)
    return instance


@pytest.mark.parametrize("name", KNOWN)
def test_published_configs_run_small_with_their_own_windows_and_kinds(name: str) -> None:
    config = catalogue.config(name)
    text = config.get("text_config", config)
    instance = made(config)
    windows = {layer.window for layer in instance.geometry.layers if layer.attention == "sliding"}
    published = text.get("sliding_window") or text.get("attention_window_size")
    # qwen3's is switched off, llama has none.
    assert windows == ({published} if name not in ("llama", "qwen3") else set())
    assert instance.vocab == 4096
    assert instance.config.get("hidden_size", 128) == 128
    assert len(instance.source_layers) == instance.geometry.depth <= 8
    logits = instance.forward(ids(), None)
    assert logits.dtype == torch.float32
    assert bool(torch.isfinite(logits).all())


@pytest.mark.parametrize("name", ["gemma3", "gpt_oss", "step3p5", "gemma4", "exaone_moe"])
def test_another_window_replaces_every_window_and_long_prompts_get_their_ids(name: str) -> None:
    instance = made(catalogue.config(name), window=8, positions=5000)
    assert {layer.window for layer in instance.geometry.layers} == {8, None}
    assert instance.vocab == 5256
    caches = instance.new_cache()
    steps = [instance.forward(ids()[:, at : at + 5], caches) for at in range(0, 29, 5)]
    whole = instance.forward(ids(), None)
    assert float((whole - torch.cat(steps, 1)).abs().max() / whole.std()) < 2e-4


def test_special_ids_stay_those_of_the_published_config() -> None:
    # gpt-oss ends with 200002 and pads with 199999, which a tiny vocabulary does not hold.
    tokens = made(catalogue.config("gpt_oss")).geometry.tokens
    assert tokens is not None
    assert (tokens.pad, tokens.eos) == (199999, [200002])


def test_a_wrapper_is_read_for_its_text_model() -> None:
    outer, inner = made(catalogue.config("gemma3")), made(catalogue.config("gemma3_text"))
    assert type(outer.model).__name__ == type(inner.model).__name__ == "Gemma3ForCausalLM"


def test_kinds_that_a_family_s_class_does_not_know_are_left_out_and_noted() -> None:
    listed = made(catalogue.config("ministral3"))
    assert {layer.attention for layer in listed.geometry.layers} == {"sliding"}
    assert "transformers reads no layer_types of ministral3" in listed.geometry.notes[0]


def test_sharers_are_kept_with_an_owner_each() -> None:
    instance = made(catalogue.config("gemma3n"))
    shares = {layer.index: layer.shares for layer in instance.geometry.layers if layer.shares is not None}
    kinds = {layer.index: layer.attention for layer in instance.geometry.layers}
    assert len(shares) == 2
    assert all(kinds[owner] == kinds[sharer] for sharer, owner in shares.items() if owner is not None)


def test_kinds_that_follow_from_a_family_s_default_are_those_of_the_layers_kept() -> None:
    config = catalogue.config("gemma3n")
    config["text_config"].pop("layer_types", None)
    instance = made(config)
    # Every fifth layer is full: of the sharers, layer 20 slides and layer 24 does not.
    assert instance.source_layers == (0, 1, 2, 3, 4, 20, 24)
    kinds = [layer.attention for layer in instance.geometry.layers]
    assert kinds == ["sliding"] * 4 + ["full", "sliding", "full"]


def test_equal_seeds_give_equal_logits() -> None:
    one, same, other = (made(catalogue.config("olmo3"), seed=seed).forward(ids(), None) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_what_cannot_be_built_is_a_value() -> None:
    for model_type in ("baichuan_m1", "frobnicator"):
        found = build({"model_type": model_type, "num_hidden_layers": 2})
        assert isinstance(found, Skipped)
        assert f"has no such model: {model_type}" in found.reason
    refused = build(catalogue.config("gpt_oss"), attention="sdpa")
    assert isinstance(refused, Skipped)


def test_a_config_that_contradicts_itself_is_unreadable() -> None:
    config = {**catalogue.config("gemma3_text"), "layer_types": ["sliding_attention"]}
    with pytest.raises(UnreadableError, match="config of gemma3_text: "):
        build(config)


def test_a_device_that_is_not_there_judges_nothing() -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(UnjudgedError, match=f"{absent} does not compute"):
        build(catalogue.config("llama"), device=absent)
