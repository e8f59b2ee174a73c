"""An error text as steps of the trace: the call that it describes, the fault, and the end it brought."""

from __future__ import annotations

import re

from msgspec import UNSET, structs

from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.shapes import Told, attention_of
from mlxdiag.traces.types import Attention, Row

ABORTED = 134
"""What a shell reports of a process that SIGABRT ended, as an uncaught C++ exception does."""

_LIBRARY = re.compile(
    r"(?:^|[/\\])(mlx_lm|mlx_vlm|mlx_engine|mlx_audio|vllm|vllm_mlx|vllm_metal|rapid_mlx|omlx|sglang|transformers|"
    r"torch|tensor_parallel|exo)[/\\]((?:\w{1,60}[/\\]){0,8}\w{1,60})\.py$"
)
_WORDS = re.compile(
    r"^(?:update_and_fetch|update|fetch|merge|extend|extract|filter|trim|finalize|prepare|make_mask|"
    r"create_\w{0,30}mask|scaled_dot_product_attention|\w{0,30}attention\w{0,30}|sdpa|softmax|rope|"
    r"apply_rotary_pos_emb|forward|__call__|generate|generate_step|sample|step|next|cat|concatenate)$"
)
"""Functions that may be named although nobody knows whose file they are in."""


def where_of(path: str, function: str) -> str | None:
    """A frame as `library.module.function`; None for a frame of the user's own, whose names stay private."""
    known = _LIBRARY.search(path)
    function = function if _WORDS.match(function) else ""
    if known:
        module = re.sub(r"[/\\]", ".", f"{known[1]}.{known[2]}")
        return f"{module}.{function}" if function else module
    stem = re.split(r"[/\\]", path)[-1]
    if stem == "cache.py":
        return f"cache.{function}" if function else "cache"
    return function or None


def crash(draft: Draft, told: Told, where: str | None = None, exit: int | None = None) -> None:
    """Write the fault down; with the attention call where the shapes leave no doubt about it.

    Args:
        where: the frame it happened in, as `where_of` tells it.
        exit: the code that the program ended with; None where it went on, or nothing says.
    """
    call = attention_of(told, (where or "").lower())
    if call is None:
        draft.step("note").error = told.fault(where)
    else:
        _attention(draft, told, where, call)
    if exit is not None:
        draft.step("end").exit = exit


def _attention(draft: Draft, told: Told, where: str | None, call: Attention) -> None:
    assert call.q is not None
    assert isinstance(call.k, int)
    draft.scheduler.setdefault("misfit", "strict")
    held = call.k - call.q
    step = draft.step("decode" if call.q == 1 else "chunk" if held else "prefill")
    step.calls = [call]
    step.error = told.fault(where)
    window = draft.window()
    if window is not None and call.mask is not UNSET and call.mask and call.mask[-1] == window < call.k:
        step.calls = [structs.replace(call, family=draft.family("sliding"))]
        step.infer("attention.family", "the mask is as wide as the window")
    step.infer("attention.mask", "the side with fewer axes, or without heads")
    step.infer("attention.q", "the last two axes of the scores: queries and keys")
    if told.shapes[0][0] == 1 or told.shapes[1][0] == 1:
        step.rows = [Row(tokens=call.q, offset=held)]
        why = (
            "no keys before the call"
            if not held
            else "the keys before the call; a ring would stand further on"
        )
        step.infer("rows.offset", why)
        step.infer("rows.tokens", "the queries; padding is not told apart")
