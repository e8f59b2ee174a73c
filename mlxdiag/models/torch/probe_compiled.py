"""Compiled forwards: their Python does not run, so nothing of them is seen but that they took place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Wrapper = Callable[..., Any]
Around = Callable[[Any, Wrapper, tuple[Any, ...], dict[str, Any]], Any]
"""`around(model, call, args, kwargs)` makes the call and tells of it."""

COMPILED = "compiled by torch: the Python that a probe could watch did not run"


def module_wrapper(original: Wrapper, around: Around) -> Wrapper:
    """For `OptimizedModule.__call__`: what `torch.compile(model)` gives."""

    def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return original(module, *args, **kwargs)

        return around(getattr(module, "_orig_mod", None), call, args, kwargs)

    return __call__


def call_wrapper(original: Wrapper, around: Around) -> Wrapper:
    """For `PreTrainedModel.get_compiled_call`: what `generate` decodes with on a static cache."""

    def get_compiled_call(model: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = original(model, *args, **kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            return around(model, compiled, args, kwargs)

        return call

    return get_compiled_call
