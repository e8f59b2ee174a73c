"""A tiny gemma3 with a window of 16, in this process or saved as a checkpoint with a real tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, PreTrainedTokenizerFast

WINDOW, VOCABULARY, LAYERS = 16, 300, 2
PAD, EOS, BOS, TURN, UNKNOWN = "<pad>", "<eos>", "<bos>", "<start_of_turn>", "<unk>"
SPECIALS = (PAD, EOS, BOS, TURN, UNKNOWN)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn> {{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn> assistant {% endif %}"
)


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
    tokenizer().save_pretrained(str(directory))
    return directory


def tokenizer() -> PreTrainedTokenizerFast:
    """One word per id, split at spaces: word-7 is a token, and so is every special one."""
    words = [*SPECIALS, "system", "user", "assistant"]
    words += [f"word-{i}" for i in range(len(words), VOCABULARY)]
    inner = Tokenizer(
        tokenizer_models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN)
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    inner.add_special_tokens([AddedToken(word, special=True) for word in SPECIALS])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=EOS,
        bos_token=BOS,
        unk_token=UNKNOWN,
        chat_template=TEMPLATE,
    )


def text(count: int, start: int = 0) -> str:
    """`count` words, all different and none special: as many tokens."""
    return " ".join(f"word-{9 + (start + i) % 200}" for i in range(count))
