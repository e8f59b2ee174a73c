"""Which config and directory a model came from: `mlx_lm.utils.load_model`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from mlxdiag.record.recorder import Recorder


def install(module: ModuleType, recorder: Recorder) -> None:
    """Remember config and directory of each model that is loaded from now on."""

    def remembering(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_model(model_path: Any, *args: Any, **kwargs: Any) -> Any:
            loaded = original(model_path, *args, **kwargs)
            recorder.guarded(remember, recorder, loaded, model_path)
            return loaded

        return load_model

    recorder.patches.add(module, "load_model", remembering)


def remember(recorder: Recorder, loaded: Any, model_path: Any) -> None:
    model, config = loaded
    recorder.models.loaded[id(model)] = (config, Path(model_path))
