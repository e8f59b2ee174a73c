"""Writes an instance of transformers to a folder, as its own users have it, and as mlx-lm's users have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlxdiag.models.convert.layouts import Weights, laid_out
from mlxdiag.models.convert.published import published
from mlxdiag.models.convert.rows import Row

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def saved(model: Any, folder: Path) -> Path:
    """As `save_pretrained` of transformers writes it: one file of weights, float32, and the config."""
    from mlxdiag.models.torch import library

    with library.quiet():
        model.save_pretrained(folder, max_shard_size="100GB")
    return folder


def republished(source: Path, folder: Path, row: Row) -> Path:
    """A saved folder in the published form. Raises what `layouts.laid_out` raises."""
    from safetensors.numpy import load_file, save_file

    config = json.loads((source / CONFIG).read_bytes())
    weights: Weights = load_file(source / WEIGHTS)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(laid_out(weights, config, row), folder / WEIGHTS, metadata={"format": "pt"})
    text = json.dumps(published(config, row), indent=2)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    return folder
