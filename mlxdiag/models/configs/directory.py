"""A checkpoint directory before a library reads it: its config.json, and whether its weights are there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxdiag.errors import UnreadableError
from mlxdiag.models.configs.geometry import from_config

_INDEX = "model.safetensors.index.json"
_LENGTH = 8
"""Bytes at the start of a safetensors file: the length of its header, a little-endian integer."""


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
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableError(f"{path}/config.json: {error}") from None
    if not isinstance(config, dict):
        raise UnreadableError(f"{path}/config.json must hold a JSON object")
    if not isinstance(config.get("model_type"), str) or not config["model_type"]:
        raise UnreadableError(f"{path}/config.json names no model_type")
    if "model_file" in config:
        raise UnreadableError(
            f"{path}/config.json asks to run {config['model_file']!r}; custom code is not run"
        )
    return config


def require_geometry(directory: str | Path, config: Mapping[str, Any]) -> None:
    """Raises UnreadableError, which names the file, where a checkpoint's config contradicts itself."""
    try:
        from_config(config)
    except UnreadableError as error:
        raise UnreadableError(f"{Path(directory)}/config.json: {error}") from None


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
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnreadableError(f"{index} is not an index of weights") from None
    missing = sorted(str(shard) for shard in shards if not (path / str(shard)).exists())
    if missing:
        raise UnreadableError(f"{path} lacks {len(missing)} of {len(shards)} shards, first {missing[0]}")


def check_files(path: Path) -> None:
    """Raises UnreadableError where a file of weights is cut off, or is none, and names it."""
    for file in sorted(path.glob("model*.safetensors")):
        if (wrong := _misread(file)) is not None:
            raise UnreadableError(f"{file}: {wrong}")


def _misread(file: Path) -> str | None:
    """What is wrong with a safetensors file, as far as its header and its size tell."""
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            length = int.from_bytes(stream.read(_LENGTH), "little")
            if size < _LENGTH or length > size - _LENGTH:
                return f"is cut off, or is no safetensors file: {size} bytes do not hold its header"
            header = json.loads(stream.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        held, wanted = size - _LENGTH - length, max(ends, default=0)
        return f"is cut off: {held} of {wanted} bytes of weights are there" if held < wanted else None
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return "is no safetensors file: its header is not a table of tensors"
