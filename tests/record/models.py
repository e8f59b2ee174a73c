"""A tiny model in this process, with one sliding layer of window 16 and one full layer."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma3_text


def build(vocab: int = 300) -> Any:
    mx.random.seed(0)
    arguments = gemma3_text.ModelArgs(
        model_type="gemma3_text",
        hidden_size=32,
        num_hidden_layers=2,
        intermediate_size=32,
        head_dim=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=vocab,
        sliding_window=16,
        sliding_window_pattern=2,
    )
    model = gemma3_text.Model(arguments)
    mx.eval(model.parameters())
    return model
