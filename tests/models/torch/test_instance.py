from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.held import Held
from mlxdiag.models.torch.instance import TorchInstance
from tests.models.torch.visibility import ids


def made(family: str, **more: Any) -> TorchInstance:
    instance = zoo.tiny(family, **more)
    assert isinstance(instance, TorchInstance), str(instance)
    return instance


def in_steps(instance: TorchInstance, tokens: Any, step: int) -> Any:
    caches = instance.new_cache()
    length = tokens.shape[1]
    return torch.cat(
        [instance.forward(tokens[:, at : at + step], caches) for at in range(0, length, step)], 1
    )


def off(one: Any, other: Any) -> float:
    """Largest difference in units of the spread."""
    return float((one - other).abs().max() / one.std())


@pytest.mark.parametrize("step", [1, 5, 12])
@pytest.mark.parametrize(
    "family",
    ["gemma3_text", "gemma3n_text+shared", "gemma4_text+shared", "gpt_oss", "cohere2", "mistral", "step3p5"],
)
def test_with_a_cache_and_in_steps_the_logits_are_those_of_one_pass(family: str, step: int) -> None:
    instance = made(family)
    assert off(instance.forward(ids(), None), in_steps(instance, ids(), step)) < 2e-4


@pytest.mark.parametrize("family", ["gemma3_text", "gpt_oss", "mistral", "gemma4_text", "step3p5"])
def test_a_row_behind_padding_gets_the_logits_that_it_gets_alone(family: str) -> None:
    instance = made(family)
    tokens, left = ids(), 6
    alone = instance.forward(tokens, None)
    caches = instance.new_cache()
    caches[0].announce(np.array([[False] * left, [True] * left]))
    rows = np.concatenate([np.zeros((1, left), int), tokens], axis=1)
    batch = np.concatenate([rows, ids(seed=1, length=left + tokens.shape[1])])
    parts = [instance.forward(batch[:, :20], caches)]
    parts += [instance.forward(batch[:, at : at + 1], caches) for at in range(20, batch.shape[1])]
    assert off(alone[0], torch.cat(parts, 1)[0, left:]) < 2e-4


def test_what_the_model_is_told_is_what_generate_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same prompts with the same padding, by `generate` and by this class: equal masks and positions."""
    instance = made("gemma3_text")
    told: list[tuple[Any, Any]] = []
    real = instance.model.forward

    @wraps(real)
    def watch(*args: Any, **given: Any) -> Any:
        mask, positions = given.get("attention_mask"), given["position_ids"]
        told.append((None if mask is None else mask.tolist(), positions.tolist()))
        return real(*args, **given)

    for padding in (0, 3):
        prompts = torch.as_tensor(ids(rows=2, length=11))
        mask = torch.ones_like(prompts)
        mask[0, :padding] = 0
        with monkeypatch.context() as patched:
            patched.setattr(instance.model, "forward", watch)
            told.clear()
            out = instance.model.generate(
                prompts, attention_mask=mask, max_new_tokens=3, do_sample=False, eos_token_id=None
            )
            expected = list(told)
        caches = instance.new_cache()
        if padding:
            caches[0].announce(mask[:, :padding].bool().numpy())
        with monkeypatch.context() as patched:
            patched.setattr(instance.model, "forward", watch)
            told.clear()
            instance.forward(out[:, :11], caches)
            for at in (11, 12):
                instance.forward(out[:, at : at + 1], caches)
        assert len(expected) == 3
        assert (expected[0][0] is None) == (padding == 0)
        assert told == expected


def test_ids_outside_the_vocabulary_and_other_shapes_are_refused() -> None:
    instance = made("mistral")
    assert instance.vocab == 512
    for tokens in ([[512]], [[-1]]):
        with pytest.raises(UsageError, match=r"token ids must be in \[0, 512\)"):
            instance.forward(tokens, None)
    with pytest.raises(UsageError, match=r"tokens must be \[B, L\], not \[3\]"):
        instance.forward([1, 2, 3], None)


def test_caches_of_another_library_are_refused() -> None:
    instance = made("mistral")
    for caches in ([], [DynamicCache()], instance.new_cache() * 2):
        with pytest.raises(UsageError, match="new_cache"):
            instance.forward(ids(), caches)


def test_logits_carry_no_gradient() -> None:
    assert not made("mistral").forward(ids(), None).requires_grad


def test_one_object_holds_the_library_s_cache_of_every_layer() -> None:
    instance = made("gemma3_text")
    caches = instance.new_cache()
    assert [type(one) for one in caches] == [Held]
    kinds = [type(layer) for layer in caches[0].cache.layers]
    assert kinds == [DynamicSlidingWindowLayer, DynamicLayer] * 2
    assert instance.cache_layers(0) == (0, 1, 2, 3)
    assert instance.cache_layers(1) == ()


def test_cache_layers_are_replaced_by_index_before_family() -> None:
    instance = made("gemma3_text")
    caches = instance.new_cache(
        {"sliding": lambda layer: DynamicSlidingWindowLayer(99), 2: lambda layer: DynamicLayer()}
    )
    layers = caches[0].cache.layers
    assert layers[0].sliding_window == 99
    assert type(layers[2]) is DynamicLayer
    assert type(layers[1]) is DynamicLayer


def test_a_family_with_a_cache_of_its_own_gets_that_one() -> None:
    instance = made("minimax")
    assert type(instance.new_cache()[0].cache).__name__ == "MiniMaxCache"
    with pytest.raises(UnjudgedError, match="MiniMaxCache makes its layers by itself"):
        instance.new_cache({"full": lambda layer: DynamicLayer()})


def test_a_model_without_a_head_shows_its_hidden_states_in_fixed_directions() -> None:
    one, same = (made("diffusion_gemma_text") for _ in range(2))
    assert one.head is not None
    assert torch.equal(one.head, same.head)
    assert off(one.forward(ids(), None), in_steps(one, ids(), 5)) < 2e-4


def test_the_module_is_the_one_of_the_model_s_code() -> None:
    assert made("gemma3_text").module.__name__ == "transformers.models.gemma3.modeling_gemma3"
    assert made("step3p5").module.__name__ == "transformers.models.step3p7.modeling_step3p7"
