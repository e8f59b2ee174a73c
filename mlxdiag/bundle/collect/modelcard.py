"""`model.json`: what decides a model's masks and caches, from its config or from the trace."""

from __future__ import annotations

import hashlib
import re
import struct
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.bundle.redact import special
from mlxdiag.bundle.redact.trace import Redactor
from mlxdiag.errors import UnreadableError
from mlxdiag.traces.types import Entry, Model, Trace

SCHEMA = "mlxdiag.model/1"
MLX = "mlx-lm"
"""Notes on a config that begin so say how that library reads it."""
WHOLE = 32 << 20
"""Bytes up to which a weight file is hashed whole."""
SAMPLE = 1 << 20
"""Bytes of a larger one that are hashed, of its start and of its end: two conversions differ there."""
BLOB = re.compile(r"[0-9a-f]{64}\Z")
"""Name of a file in a hub's cache: the checksum of the whole."""
DTYPES = ("torch_dtype", "dtype")
"""Fields of a config that say what the model computes in; older and newer spelling."""
WEIGHTS = ("*.safetensors", "*.gguf", "*.npz")
NUMBERED = re.compile(r"(?:model|weights|consolidated|pytorch_model)[-._\d]*(?:of-\d+)?\.\w+\Z")


def of_trace(trace: Trace) -> dict[str, Any]:
    """From a cleaned trace: its last model entry, or the one in its header."""
    entries = [entry for entry in trace.entries if entry.kind == "model"]
    model: Entry | Model | None = entries[-1] if entries else trace.header.model
    if model is None:
        return {"schema": SCHEMA, "from": "nothing", "missing": "the trace names no model; add --model DIR"}
    config = model.config or {}
    return {
        "schema": SCHEMA,
        "from": "trace",
        "name": model.name,
        "architecture": model.architecture,
        "dtype": next((config[name] for name in DTYPES if isinstance(config.get(name), str)), None),
        "config": config,
        "layers": msgspec.to_builtins(model.layers or {}),
        "tokens": msgspec.to_builtins(model.tokens) if model.tokens is not None else {},
    }


def of_directory(directory: Path, redactor: Redactor, library: str = MLX) -> dict[str, Any]:
    """From a checkpoint's own files. Its folder is not told, and its weights are hashed, not read.

    `library`: the one that ran it; what another one makes of the config is not told.

    Raises:
        UnreadableError: no readable config.json.
    """
    from mlxdiag.models import special_ids
    from mlxdiag.models.configs import geometry

    config = _config(directory)
    card: dict[str, Any] = {
        "schema": SCHEMA,
        "from": "checkpoint",
        "config": redactor.settings.mapping(config),
    }
    try:
        found = geometry.from_config(config)
        tokens = special_ids.of_directory(directory, found.tokens)
    except UnreadableError as error:
        card["geometry"] = f"not read: {redactor.messages.clean(str(error))}"
    else:
        card["architecture"] = redactor.settings.architecture(found.architecture)
        card["layers"] = msgspec.to_builtins(found.families())
        kept = special.clean(tokens, redactor.messages.ledger, own=True) if tokens is not None else None
        card["tokens"] = msgspec.to_builtins(kept) if kept is not None else {}
        card["notes"] = [note for note in found.notes if library == MLX or not note.startswith(MLX)]
    quantised = config.get("quantization") or config.get("quantization_config")
    card["quantization"] = redactor.settings.mapping(quantised) if isinstance(quantised, dict) else None
    card["dtype"] = next(
        (str(config[k]) for k in DTYPES if redactor.settings.name(str(config.get(k, "")))),
        None,
    )
    card["files"] = list(_files(directory))
    return card


def _config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        value: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UnreadableError(f"--model: {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableError(f"--model: {path}: not a config.json: {error}") from None
    return value


def _files(directory: Path) -> list[dict[str, Any]]:
    """Weight files by size and hash; a name that says more than a number is replaced by one."""
    found = sorted({path for pattern in WEIGHTS for path in directory.glob(pattern) if path.is_file()})
    return [
        {
            "name": path.name if NUMBERED.match(path.name) else f"file-{number}{path.suffix}",
            "bytes": path.stat().st_size,
            **_hash(path),
        }
        for number, path in enumerate(found, 1)
    ]


def _hash(path: Path) -> dict[str, Any]:
    blob = path.resolve().name
    size = path.stat().st_size
    if BLOB.match(blob):
        return {"sha256": blob, "of": "the whole file"}
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size <= WHOLE:
            digest.update(file.read())
            return {"sha256": digest.hexdigest(), "of": "the whole file"}
        digest.update(struct.pack("<Q", size))
        digest.update(file.read(SAMPLE))
        file.seek(-SAMPLE, 2)
        digest.update(file.read(SAMPLE))
    return {"sha256": digest.hexdigest(), "of": "its size as 8 bytes, its first MiB and its last"}
