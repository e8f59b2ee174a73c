"""`transformers serve` without continuous batching: which request a generation answers.

With it, requests keep their ids (`continuous`). Read against `transformers/cli/serving/utils.py` of
transformers 5.24, where a request's id is the X-Request-ID header that it came with, or a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from mlxdiag.record.recorder import Recorder
from mlxdiag.record.torch.requests import serving

Wrapper = Callable[..., Any]

_REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""Of the coroutine that hands work to the thread in which models run."""


def install(module: ModuleType, recorder: Recorder) -> None:
    """Follow every request from now on."""
    add = recorder.patches.add
    add(module.GenerateManager, "generate_streaming", streaming)
    add(module.GenerateManager, "generate_non_streaming", answering)
    add(module.InferenceThread, "submit", handed_over)
    add(module.InferenceThread, "async_submit", handed_over)


def streaming(original: Wrapper) -> Wrapper:
    def generate_streaming(manager: Any, *args: Any, **kwargs: Any) -> Any:
        token = _REQUEST.set(_request_of(args, kwargs))
        try:
            return original(manager, *args, **kwargs)
        finally:
            _REQUEST.reset(token)

    return generate_streaming


def answering(original: Wrapper) -> Wrapper:
    async def generate_non_streaming(manager: Any, *args: Any, **kwargs: Any) -> Any:
        token = _REQUEST.set(_request_of(args, kwargs))
        try:
            return await original(manager, *args, **kwargs)
        finally:
            _REQUEST.reset(token)

    return generate_non_streaming


def handed_over(original: Wrapper) -> Wrapper:
    def submit(thread: Any, function: Wrapper, *args: Any, **kwargs: Any) -> Any:
        request = _REQUEST.get()
        if request is None:
            return original(thread, function, *args, **kwargs)

        def answer(*given: Any, **named: Any) -> Any:
            with serving(request):
                return function(*given, **named)

        return original(thread, answer, *args, **kwargs)

    return submit


def _request_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """(model, processor, inputs, gen_config, request_id, ...)"""
    request = kwargs.get("request_id", args[4] if len(args) > 4 else None)
    return str(request) if request is not None else None
