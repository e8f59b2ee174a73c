"""Which models transformers would not split, said before two processes try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mlxdiag.audit.distributed.told import PIPELINE, TENSOR
from mlxdiag.audit.distributed.torchrun import split
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library, tiny, zoo
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.zoo.build import tiny_config

Make = Callable[..., TorchInstance]


@pytest.fixture
def make() -> Make:
    """A tiny family with other fields of its config."""

    def made(family: str, **fields: int) -> TorchInstance:
        classes = library.family(family)
        assert not isinstance(classes, Skipped)
        instance = tiny.instance(classes, {**tiny_config(family, classes), **fields}, name=family)
        assert isinstance(instance, TorchInstance), instance
        return instance

    return made


def test_a_model_with_a_plan_and_even_heads_is_split(make: Make) -> None:
    assert split.refusal(make("gemma3_text", num_attention_heads=4, num_key_value_heads=2), TENSOR) is None


@pytest.mark.parametrize("heads", [1, 3])
def test_key_heads_that_cannot_be_shared_out_are_refused_with_their_number(make: Make, heads: int) -> None:
    sizes = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": heads}
    why = split.refusal(make("gemma3_text", **sizes), TENSOR)
    assert why is not None
    assert f"{heads} of them cannot be shared out to 2 processes" in why


def test_heads_that_the_plan_leaves_whole_may_be_odd(make: Make) -> None:
    # Its plan gathers keys in every rank: "colwise_gather_output".
    instance = zoo.tiny("step3p5")
    assert isinstance(instance, TorchInstance)
    instance.model.config.get_text_config().num_key_value_heads = 1
    assert "colwise" not in {
        style for name, style in instance.model.tp_plan.items() if name.endswith("k_proj")
    }
    assert split.refusal(instance, TENSOR) is None


def test_a_model_without_a_plan_is_refused_by_its_class() -> None:
    instance = zoo.tiny("gpt_neo")
    assert isinstance(instance, TorchInstance)
    why = split.refusal(instance, TENSOR)
    assert why is not None
    assert why.startswith("GPTNeoForCausalLM has no tensor-parallel plan")


def test_layers_are_handed_on_where_there_is_a_plan_and_odd_heads_do_not_matter(make: Make) -> None:
    instance = make("gemma3_text", num_attention_heads=4, num_key_value_heads=1)
    assert split.refusal(instance, PIPELINE) is None
    without = zoo.tiny("moshi")
    assert isinstance(without, TorchInstance)
    assert "no pipeline plan" in str(split.refusal(without, PIPELINE))


def test_a_checkpoint_comes_back_whole(make: Make, tmp_path: Path) -> None:
    instance = make("gemma3_text")
    split.save(instance, tmp_path)
    back = split.whole(instance, tmp_path)
    assert back.model is not instance.model
    assert split.weights(back.model) == sum(value.numel() for value in instance.model.parameters())
    held = dict(instance.model.named_parameters())
    assert all(torch.equal(value, held[name]) for name, value in back.model.named_parameters())
