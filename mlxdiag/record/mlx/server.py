"""`mlx_lm.server`, where it serves one request at a time: why an answer ended.

Its batches say so themselves; otherwise it stops asking for tokens, and only its own response says why.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from mlxdiag.record.mlx import single
from mlxdiag.record.recorder import Recorder

FINISHES = {"stop": "eos", "length": "length", None: "abort"}
"""By the last response's reason. None: nothing but its client's going ends an answer without one."""


def install(module: ModuleType, recorder: Recorder) -> None:
    """Follow every response from now on."""

    def noting(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(response: Any, *args: Any, **kwargs: Any) -> None:
            original(response, *args, **kwargs)
            recorder.guarded(note, response)

        return __init__

    recorder.patches.add(module.Response, "__init__", noting)


def note(response: Any) -> None:
    answer = single.answering()
    if answer is not None:
        answer.reason = FINISHES.get(response.finish_reason)
