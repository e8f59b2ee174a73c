from __future__ import annotations

from typing import Any

import pytest
import torch

from mlxdiag.models.configs.draws import Draw
from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.weights import randomise


def parameters(family: str) -> dict[str, Any]:
    instance = zoo.tiny(family)
    assert isinstance(instance, TorchInstance)
    return {name: value.detach() for name, value in instance.model.named_parameters()}


@pytest.mark.parametrize(
    "family", ["gemma3_text", "gpt_oss", "step3p5", "inkling_text", "nemotron_h", "zaya"]
)
def test_no_parameter_of_several_entries_stays_constant(family: str) -> None:
    for name, value in parameters(family).items():
        assert bool(torch.isfinite(value).all()), name
        assert value.numel() == 1 or float(value.std()) > 1e-3, name


def test_matrices_keep_the_spread_of_what_passes_through() -> None:
    found = parameters("gpt_oss")
    # 64 inputs each; experts are stored as [experts, in, out].
    for name in ("model.layers.0.self_attn.k_proj.weight", "model.layers.0.mlp.experts.gate_up_proj"):
        assert float(found[name].std()) == pytest.approx(64**-0.5, rel=0.05)
    assert found["model.layers.0.mlp.experts.gate_up_proj"].shape[1:] == (64, 128)
    assert float(found["model.embed_tokens.weight"].std()) == pytest.approx(1.0, rel=0.05)


def test_embeddings_that_the_model_scales_come_out_at_one() -> None:
    instance = zoo.tiny("gemma3_text")
    assert isinstance(instance, TorchInstance)
    embedded = instance.model.get_input_embeddings()(torch.arange(512)).detach()
    assert float(embedded.std()) == pytest.approx(1.0, rel=0.05)


def test_a_sink_weighs_something() -> None:
    sinks = [value for name, value in parameters("gpt_oss").items() if name.endswith("sinks")]
    assert len(sinks) == 4
    assert all(float(value.abs().max()) > 0.01 for value in sinks)


def test_matrices_depend_on_seed_and_name_only() -> None:
    def drawn(seed: int, build: int) -> Any:
        torch.manual_seed(build)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
        randomise(model, Draw(), seed)
        return model[0].weight

    assert torch.equal(drawn(1, build=0), drawn(1, build=9))
    assert not torch.equal(drawn(1, build=0), drawn(2, build=0))


def test_a_norm_is_spread_around_one_and_memory_left_as_it_was_is_drawn() -> None:
    model = torch.nn.Module()
    model.norm = torch.nn.LayerNorm(1000)
    model.left = torch.nn.Parameter(torch.full((1000,), float("nan")))
    randomise(model, Draw(), 0)
    assert float(model.norm.weight.detach().mean()) == pytest.approx(1.0, abs=0.02)
    assert float(model.norm.weight.detach().std()) == pytest.approx(0.1, rel=0.2)
    assert float(model.left.detach().std()) == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize("family", ["gemma2", "recurrent_gemma"])
def test_norms_that_multiply_by_one_more_are_drawn_around_one_as_in_mlx_lm(family: str) -> None:
    norms = [value for name, value in parameters(family).items() if name.endswith("norm.weight")]
    assert norms
    assert all(float(value.mean()) == pytest.approx(1.0, abs=0.1) for value in norms)
