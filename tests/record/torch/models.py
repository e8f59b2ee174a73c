"""A tiny gemma3 with a window of 16, in this process or saved as a checkpoint with a real tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from tests.record import words

WINDOW, VOCABULARY, LAYERS = 16, 300, 2


def build(seed: int = 0, **more: Any) -> Any:
    """Random weights, large enough that what a query attends to changes what is chosen."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
        "query_pre_attn_scalar": 16,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
        **more,
    }
    generator = torch.Generator().manual_seed(seed)
    model = Gemma3ForCausalLM(Gemma3TextConfig(**settings)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5, generator=generator)
    return model


def save(directory: Path, **more: Any) -> Path:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer's files."""
    build(**more).save_pretrained(str(directory))
    words.tokenizer(VOCABULARY).save_pretrained(str(directory))
    return directory
