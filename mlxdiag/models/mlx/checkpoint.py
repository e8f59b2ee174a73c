"""A real checkpoint: a local directory of config.json and model*.safetensors, through mlx-lm's own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.directory import check_files, check_weights, read_config
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.instance import MlxInstance, cache_count, device_name, text_module


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
    check_weights(path, "mlx-lm")
    geometry = from_config(config)
    tokens = special_ids.of_directory(path, geometry.tokens)
    module = library.family_of(config)
    if isinstance(module, Skipped):
        raise UnjudgedError(f"{path}: {module}")
    check_files(path)
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
