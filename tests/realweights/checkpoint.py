"""From the GGUF file to a directory that mlx-lm loads: config, weights in float32, tokenizer.

The names of tensors and of metadata keys are those of the GGUF specification (ggml-org/ggml, docs/gguf.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
GROUP = 32
"""Weights of a block in GGUF's Q4_1 and Q8_0, each with a scale of its own."""
CONTROL = 3
"""GGUF's token type of control tokens."""


def save(gguf: Path, directory: Path) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files; returns the directory.

    The weights are unpacked to float32, for a CPU multiplies those far faster than packed ones.
    """
    loaded: Any = mx.load(str(gguf), return_metadata=True)
    arrays, facts = loaded
    directory.mkdir(parents=True)
    mx.save_safetensors(str(directory / "model.safetensors"), dict(_tensors(arrays)))
    (directory / "config.json").write_text(json.dumps(_config(facts)))
    _tokenizer(facts).save_pretrained(str(directory))
    return directory


def with_window(plain: Path, directory: Path, window: int, period: int) -> Path:
    """The same weights with a window on all layers but each `period`-th: a model that nobody trained so."""
    directory.mkdir()
    for file in plain.iterdir():
        os.link(file, directory / file.name)
    config = json.loads((plain / "config.json").read_text())
    count = config["num_hidden_layers"]
    kinds = ["full" if (i + 1) % period == 0 else "sliding" for i in range(count)]
    config |= {"sliding_window": window, "layer_types": [f"{kind}_attention" for kind in kinds]}
    (directory / "config.json").unlink()
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def _tensors(arrays: dict[str, mx.array]) -> Iterator[tuple[str, mx.array]]:
    for name, array in arrays.items():
        stem, _, part = name.rpartition(".")
        if part == "weight":
            yield f"{_renamed(stem)}.weight", _unpacked(arrays, stem, array).astype(mx.float32)


def _renamed(stem: str) -> str:
    if stem in TENSORS:
        return TENSORS[stem]
    _, number, part = stem.split(".")
    return f"model.layers.{number}.{LAYER_TENSORS[part]}"


def _unpacked(arrays: dict[str, mx.array], stem: str, array: mx.array) -> mx.array:
    scales = arrays.get(f"{stem}.scales")
    if scales is None:
        return array
    bits = array.shape[-1] // scales.shape[-1]  # a group of 32 weights is that many words of 32 bits
    return mx.dequantize(array, scales, arrays[f"{stem}.biases"], group_size=GROUP, bits=bits)


def _config(facts: dict[str, Any]) -> dict[str, Any]:
    def number(name: str) -> Any:
        return facts[name].item()

    return {
        "model_type": "llama",
        "hidden_size": number("llama.embedding_length"),
        "num_hidden_layers": number("llama.block_count"),
        "intermediate_size": number("llama.feed_forward_length"),
        "num_attention_heads": number("llama.attention.head_count"),
        "num_key_value_heads": number("llama.attention.head_count_kv"),
        "rms_norm_eps": number("llama.attention.layer_norm_rms_epsilon"),
        "vocab_size": number("llama.vocab_size"),
        "max_position_embeddings": number("llama.context_length"),
        "rope_theta": number("llama.rope.freq_base"),
        # GGUF stores q and k with the pairs of a rotation side by side.
        "rope_traditional": True,
        "tie_word_embeddings": True,
        "bos_token_id": number("tokenizer.ggml.bos_token_id"),
        "eos_token_id": number("tokenizer.ggml.eos_token_id"),
        "pad_token_id": number("tokenizer.ggml.padding_token_id"),
    }


def _tokenizer(facts: dict[str, Any]) -> PreTrainedTokenizerFast:
    words: list[str] = facts["tokenizer.ggml.tokens"]
    pairs = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=pairs))
    # What GGUF calls the pre-tokenizer `smollm`: every digit alone, then bytes as GPT-2 splits them.
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    inner.decoder = decoders.ByteLevel()
    kinds = facts["tokenizer.ggml.token_type"].tolist()
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL]
    inner.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])

    def word(name: str) -> str:
        return words[facts[f"tokenizer.ggml.{name}_token_id"].item()]

    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=word("bos"),
        eos_token=word("eos"),
        pad_token=word("padding"),
        unk_token=word("unknown"),
        chat_template=facts["tokenizer.chat_template"],
    )
