"""Each cause that is written down explains all of its difference: undone in one library, the two agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
import torch

from mlxdiag.audit.across.judge import Session
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models import convert
from tests.audit.across.models import pair, replaced


def result(family: str) -> str:
    return Session(pair(family)).cell(named("fresh-over-window")).result


@contextmanager
def all_of(*contexts: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def other_gelu(family: str) -> Any:
    """gelu and its approximation by tanh change places."""
    exact, near = nn.gelu, nn.gelu_approx
    return all_of(replaced(nn, "gelu", near), replaced(nn, "gelu_approx", exact))


def half_rotated(family: str) -> Any:
    layers = pair(family).mlx.model.layers
    return all_of(
        *(replaced(layer.self_attn.rope, "dims", layer.self_attn.head_dim // 2) for layer in layers)
    )


def softmax_over_all(family: str) -> Any:
    from mlx_lm.models.jamba import JambaSparseMoeBlock

    def call(block: Any, x: mx.array) -> mx.array:
        gates = mx.softmax(block.router(x), axis=-1, precise=True)
        k = block.num_experts_per_tok
        chosen = mx.argpartition(-gates, kth=k - 1, axis=-1)[..., :k]
        scores = mx.take_along_axis(gates, chosen, axis=-1)
        return (block.switch_mlp(x, chosen) * scores[..., None]).sum(axis=-2)

    return replaced(JambaSparseMoeBlock, "__call__", call)


@contextmanager
def without_bias(family: str) -> Iterator[None]:
    held = {
        name: value.clone()
        for name, value in pair(family).torch.model.named_parameters()
        if name.endswith("e_score_correction_bias")
    }
    assert held
    parameters = dict(pair(family).torch.model.named_parameters())
    with torch.no_grad():
        for name in held:
            parameters[name].zero_()
        try:
            yield
        finally:
            for name, value in held.items():
                parameters[name].copy_(value)


def window_with_the_query(family: str) -> Any:
    model = pair(family).mlx.model
    return all_of(
        replaced(model.model, "sliding_window_size", model.args.sliding_window_size + 1),
        replaced(model.args, "sliding_window_size", model.args.sliding_window_size + 1),
    )


@pytest.mark.parametrize(
    ("family", "undone"),
    [
        ("gemma", other_gelu),
        ("gpt_bigcode", other_gelu),
        ("gpt_neox", other_gelu),
        ("glm", half_rotated),
        ("jamba", softmax_over_all),
        ("ernie4_5_moe", without_bias),
        ("mimo_v2_flash", window_with_the_query),
    ],
)
def test_undone_the_two_agree(family: str, undone: Any) -> None:
    assert result(family) == "differ"
    with undone(family):
        assert result(family) == "agree"


@pytest.mark.parametrize("family", ["mistral", "gemma2", "phi3", "qwen3_moe"])
def test_without_a_window_the_two_agree(family: str) -> None:
    """As many tokens as the window's eight and no more: mlx-lm's mask is right there."""
    found = Session(pair(family))
    assert found.cell(named("fresh-within-window")).result == "agree"
    assert found.cell(named("fresh-over-window")).kind == "visibility"


def test_the_field_that_is_not_read_is_all_that_differs_in_gpt_oss() -> None:
    assert (result("gpt_oss"), result("gpt_oss+truncated")) == ("differ", "agree")


@pytest.mark.parametrize("family", ["cohere", "smollm3", "cohere2"])
def test_what_is_saved_differs_and_what_is_published_does_not(family: str) -> None:
    assert result(family) == "agree"
    saved = convert.of_instance(pair(family).torch, family, form="saved")
    assert isinstance(saved, convert.Pair)
    assert Session(saved).cell(named("fresh-over-window")).result == "differ"
