"""Which config and directory a model came from: `mlx_lm.utils.load_model`."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from mlxdiag.record.recorder import Recorder


def install(module: ModuleType, recorder: Recorder) -> None:
    """Remember config and directory of each model that is loaded from now on."""
    original = module.load_model

    @wraps(original)
    def load_model(model_path: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = original(model_path, *args, **kwargs)
        recorder.guarded(remember, recorder, loaded, model_path)
        return loaded

    module.load_model = load_model  # type: ignore[attr-defined]


def remember(recorder: Recorder, loaded: Any, model_path: Any) -> None:
    model, config = loaded
    recorder.loaded[id(model)] = (config, Path(model_path))
