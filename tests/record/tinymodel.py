"""A checkpoint that real programs load: tiny random weights with a real window, and a real tokenizer.

Nothing is downloaded: the weights come from `models.mlx.tiny`, the tokenizer is trained on no text, it knows
one word for each id.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance

WINDOW = 32
VOCABULARY = 4096
"""What `tiny.build` leaves of every family."""
PAD, EOS, BOS, TURN, UNKNOWN, RESERVED = "<pad>", "<eos>", "<bos>", "<start_of_turn>", "<unk>", "<unused0>"
SPECIALS = (PAD, EOS, BOS, TURN, UNKNOWN, RESERVED)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn> {{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn> assistant {% endif %}"
)


def save(directory: Path, family: str = "gemma3_text", *, seed: int = 0, window: int = WINDOW) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files; returns the directory."""
    built = tiny.build(catalogue.config(family), seed=seed, window=window)
    assert isinstance(built, MlxInstance), built
    directory.mkdir(parents=True)
    mx.save_safetensors(str(directory / "model.safetensors"), dict(tree_flatten(built.model.parameters())))
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    (directory / "config.json").write_text(json.dumps({**built.config, **ids}))
    tokenizer(built.vocab).save_pretrained(str(directory))
    return directory


def tokenizer(vocab: int) -> PreTrainedTokenizerFast:
    """One word per id, split at spaces: word-7 is a token, and so is every special one."""
    words = [*SPECIALS, "system", "user", "assistant"]
    words += [f"word-{i}" for i in range(len(words), vocab)]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN))
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


def text(count: int, start: int = 0, step: int = 1) -> str:
    """`count` words, all different and none special: as many tokens."""
    return " ".join(f"word-{9 + (start + i * step) % 200}" for i in range(count))


def draft_of(model: Path, directory: Path, noise: float = 0.02) -> Path:
    """A draft model that agrees with `model` now and then: the same weights, disturbed."""
    weights = mx.load(str(model / "model.safetensors"))
    assert isinstance(weights, dict)
    keys = mx.random.split(mx.random.key(0), len(weights))
    shutil.copytree(model, directory)
    disturbed = {
        name: array + noise * array.std() * mx.random.normal(array.shape, key=key)
        for (name, array), key in zip(weights.items(), keys, strict=True)
    }
    mx.save_safetensors(str(directory / "model.safetensors"), disturbed)
    return directory
