"""A real checkpoint: a local directory of config.json and model*.safetensors, through mlx-lm's own loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.instance import MlxInstance, cache_count, device_name, text_module

_INDEX = "model.safetensors.index.json"


def load(directory: str | Path) -> MlxInstance:
    """Load a checkpoint strictly; nothing is ever downloaded.

    Floats of half precision are computed in float32, where noise and faults can be told apart; the geometry's
    notes say so. Quantised weights stay quantised.

    Raises UnreadableError where the directory is no whole checkpoint (no config, no weights, a missing shard,
    weights that are missing, surplus or of the wrong shape), UnjudgedError where mlx-lm or the family is not
    installed.
    """
    path = Path(directory)
    config = read_config(path)
    _check_weights(path)
    geometry = from_config(config)
    tokens = special_ids.of_directory(path, geometry.tokens)
    module = library.family(config["model_type"])
    if isinstance(module, Skipped):
        raise UnjudgedError(f"{path}: {module}")
    model, config = _load(path)
    note = _to_float32(model)
    return MlxInstance(
        name=path.resolve().name,
        geometry=msgspec.structs.replace(geometry, tokens=tokens, notes=geometry.notes + note),
        device=device_name(),
        vocab=_rows(model) or geometry.vocab or 1,
        config=config,
        model=model,
        module=text_module(model),
        cache_count=cache_count(model),
    )


def read_config(directory: str | Path) -> dict[str, Any]:
    """The config.json of a checkpoint, read without a framework. Raises UnreadableError as `load` does."""
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


def _check_weights(path: Path) -> None:
    if not any(path.glob("model*.safetensors")):
        others = sorted(
            file.name for file in path.iterdir() if file.suffix in (".safetensors", ".gguf", ".bin")
        )
        found = f"; it has {', '.join(others[:3])}, which mlx-lm does not read" if others else ""
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


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    from mlx_lm.utils import load_model

    try:
        model, config = load_model(path, strict=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001  sanitize functions raise whatever the weights provoke
        text = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableError(f"{path}: the weights do not fit the config: {text[:300]}") from None
    model.eval()
    return model, config


def _to_float32(model: Any) -> tuple[str, ...]:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    stored = {array.dtype for _, array in tree_flatten(model.parameters())}
    halves = sorted(str(dtype).removeprefix("mlx.core.") for dtype in stored & {mx.float16, mx.bfloat16})
    if not halves:
        return ()
    model.set_dtype(mx.float32)
    return (f"weights stored in {' and '.join(halves)} are computed in float32",)


def _rows(model: Any) -> int | None:
    """Rows of the token embedding: a config may promise more ids than the weights hold."""
    for name in ("embed_tokens", "wte", "embeddings", "tok_embeddings", "word_embeddings"):
        for path, module in model.named_modules():
            if path.split(".")[-1] == name and hasattr(module, "weight"):
                return int(module.weight.shape[0])
    return None
