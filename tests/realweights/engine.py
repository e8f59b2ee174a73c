"""A small serving program, as its authors might have it: mlx-lm generates, the masks are its own.

It knows nothing of mlxdiag. `library` leaves the masks to mlx-lm. `capped` hands the sliding layers a mask as
wide as their window and cuts keys and values to it. `cropped` sizes its mask by the offset, and where the
trimmed cache has fewer keys cuts off the wrong end.

Run as a script: engine.py MODEL_DIR PROMPT_FILE MASKS TOKENS; prints the answer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import generate, load
from mlx_lm.models import llama

CHUNK = 64
"""Tokens of the prompt that one forward takes."""

own_mask = llama.create_attention_mask
own_attention = llama.scaled_dot_product_attention


def additive(q: int, offset: int, window: int | None = None) -> mx.array:
    """[q, offset + q] for queries at offset, offset + 1, ...: 0 where attended, else -inf."""
    queries, keys = mx.arange(offset, offset + q)[:, None], mx.arange(offset + q)[None]
    seen = keys <= queries
    if window is not None:
        seen = seen & (keys > queries - window)
    return mx.where(seen, 0.0, float("-inf"))


def capped_mask(h: mx.array, cache: Any = None, window_size: int | None = None, **more: Any) -> Any:
    q = h.shape[1]
    if window_size is None or q == 1:
        return own_mask(h, cache, window_size=window_size, **more)
    return additive(q, cache.offset, window_size)[:, -window_size:]


def offset_mask(h: mx.array, cache: Any = None, window_size: int | None = None, **more: Any) -> Any:
    q = h.shape[1]
    if window_size is None or q == 1:
        return own_mask(h, cache, window_size=window_size, **more)
    return additive(q, cache.offset)


def attend_to_newest_keys(queries: Any, keys: Any, values: Any, *, mask: Any, **more: Any) -> Any:
    if isinstance(mask, mx.array) and mask.shape[-1] < keys.shape[2]:
        length = mask.shape[-1]
        keys, values = keys[..., -length:, :], values[..., -length:, :]
    return own_attention(queries, keys, values, mask=mask, **more)


def attend_with_cropped_mask(queries: Any, keys: Any, values: Any, *, mask: Any, **more: Any) -> Any:
    if isinstance(mask, mx.array):
        mask = mask[..., : keys.shape[2]]
    return own_attention(queries, keys, values, mask=mask, **more)


MASKS = {
    "library": (own_mask, own_attention),
    "capped": (capped_mask, attend_to_newest_keys),
    "cropped": (offset_mask, attend_with_cropped_mask),
}


def main(directory: str, prompt: str, masks: str, tokens: str) -> None:
    llama.create_attention_mask, llama.scaled_dot_product_attention = MASKS[masks]
    model, tokenizer, *_ = load(directory)
    asked = [{"role": "user", "content": Path(prompt).read_text()}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True)
    settings = {"max_tokens": int(tokens), "prefill_step_size": CHUNK}
    print(generate(model, tokenizer, prompt=ids, **settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
