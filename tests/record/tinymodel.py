"""A checkpoint that real programs load: tiny random weights with a real window, and a real tokenizer.

Nothing is downloaded: the weights come from `models.mlx.tiny`, the tokenizer from `words`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance
from tests.record import words

WINDOW = 32
VOCABULARY = 4096
"""What `tiny.build` leaves of every family."""
RESERVED = "<unused0>"


def save(directory: Path, family: str = "gemma3_text", *, seed: int = 0, window: int = WINDOW) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files; returns the directory."""
    built = tiny.build(catalogue.config(family), seed=seed, window=window)
    assert isinstance(built, MlxInstance), built
    directory.mkdir(parents=True)
    mx.save_safetensors(str(directory / "model.safetensors"), dict(tree_flatten(built.model.parameters())))
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    (directory / "config.json").write_text(json.dumps({**built.config, **ids}))
    words.tokenizer(built.vocab, RESERVED).save_pretrained(str(directory))
    return directory


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
