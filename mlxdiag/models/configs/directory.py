"""A checkpoint directory before a library reads it: its config.json, and whether its weights are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlxdiag.errors import UnreadableError

_INDEX = "model.safetensors.index.json"


def read_config(directory: str | Path) -> dict[str, Any]:
    """The config.json of a checkpoint, read without a framework.

    Raises UnreadableError for no directory, no config, a broken one, or one that asks for custom code.
    """
    path = Path(directory)
    if not path.is_dir():
        raise UnreadableError(f"{path} is not a model directory")
    try:
        config = json.loads((path / "config.json").read_bytes())
    except FileNotFoundError:
        raise UnreadableError(f"{path} has no config.json") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path}/config.json: {error}") from None
    if not isinstance(config, dict):
        raise UnreadableError(f"{path}/config.json must hold a JSON object")
    if not isinstance(config.get("model_type"), str):
        raise UnreadableError(f"{path}/config.json names no model_type")
    if "model_file" in config:
        raise UnreadableError(
            f"{path}/config.json asks to run {config['model_file']!r}; custom code is not run"
        )
    return config


def check_weights(path: Path, reader: str) -> None:
    """Raises UnreadableError where a directory lacks weights, or one of the shards that its index names.

    `reader`: the library that would read them, for the message.
    """
    if not any(path.glob("model*.safetensors")):
        others = sorted(
            file.name for file in path.iterdir() if file.suffix in (".safetensors", ".gguf", ".bin")
        )
        found = f"; it has {', '.join(others[:3])}, which {reader} does not read here" if others else ""
        raise UnreadableError(f"{path} has no model*.safetensors{found}")
    index = path / _INDEX
    if not index.exists():
        return
    try:
        shards = set(json.loads(index.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UnreadableError(f"{index} is not an index of weights") from None
    missing = sorted(str(shard) for shard in shards if not (path / str(shard)).exists())
    if missing:
        raise UnreadableError(f"{path} lacks {len(missing)} of {len(shards)} shards, first {missing[0]}")
