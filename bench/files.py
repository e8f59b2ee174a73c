"""Trace files to measure with: a healthy server of a model with two kinds of layers, as long as asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

WINDOW = 512
CHUNK = 512
PROMPT = 2048
ANSWER = 200

HEADER = f"""schema: mlxdiag.trace/1
source: {{program: "bench", version: "1"}}
scheduler: {{chunk: {CHUNK}}}
model: {{name: "bench", architecture: "gemma3_text", layers: {{
  sliding: {{attention: sliding, cache: rotating, window: {WINDOW}, count: 20}},
  full: {{attention: full, cache: dense, count: 4}}}}}}
steps:
"""


def write(path: Path, size: int) -> int:
    """Write a trace of about `size` bytes that no rule finds fault with; how many steps it has."""
    steps = 0
    with path.open("w", encoding="utf-8") as file:
        written = file.write(HEADER)
        for line in _lines():
            if written >= size:
                break
            written += file.write(line)
            steps += 1
        file.write('- {"phase": "end", "exit": 0}\n')
    return steps


def _lines() -> Iterator[str]:
    """One sequence after another: a chunked prefill, then decode."""
    step = count(1)
    for number in count():
        seq = f"seq-{number}"
        for offset in range(0, PROMPT, CHUNK):
            row = {"seq": seq, "offset": offset, "tokens": CHUNK, "total": PROMPT}
            phase = "chunk" if offset else "prefill"
            yield _line(next(step), phase, row, offset, CHUNK)
        for offset in range(PROMPT, PROMPT + ANSWER):
            row = {"seq": seq, "offset": offset, "tokens": 1, "emitted": 1, "classes": "t"}
            yield _line(next(step), "decode", row, offset, 1)


def _line(step: int, phase: str, row: dict[str, object], offset: int, q: int) -> str:
    ring = min(offset + 1, WINDOW) if q == 1 else min(offset, WINDOW - 1) + q
    calls = [
        {"family": family, "offset": offset, "q": q, "k": k, "mask": None if q == 1 else [q, k]}
        for family, k in (("sliding", ring), ("full", offset + q))
    ]
    return "- " + json.dumps({"step": step, "phase": phase, "rows": [row], "attention": calls}) + "\n"
