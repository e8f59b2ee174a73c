"""Small real programs, and a way to run them with and without the recorder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mlxdiag.traces.reader import read
from mlxdiag.traces.types import FORWARD_PHASES, Trace

SCRIPT = Path(sys.executable).with_name("mlxdiag")
ARGUMENTS = """
    model_type="gemma3_text", hidden_size=32, num_hidden_layers=2, intermediate_size=32, head_dim=8,
    num_attention_heads=4, num_key_value_heads=2, vocab_size=300, sliding_window=16, sliding_window_pattern=2,
"""
"""A sliding layer with a window of 16, then a full one."""
MODEL = f"""
import sys
import mlx.core as mx
from mlx_lm.models import gemma3_text
from mlx_lm.generate import generate_step
mx.random.seed(0)
model = gemma3_text.Model(gemma3_text.ModelArgs({ARGUMENTS}))
mx.eval(model.parameters())
"""
PROMPT, CHUNK, ANSWER = 40, 16, 12
"""Tokens: the prompt but its last one goes in chunks of 16, 16 and 7."""
FORWARDS = 3 + 1 + ANSWER
"""The pieces of the prompt, its last token, and the tokens of the answer, each fed back."""
GENERATE = f"""
for number, (token, _) in enumerate(
    generate_step(mx.arange(5, {PROMPT + 5}), model, max_tokens={ANSWER}, prefill_step_size={CHUNK})
):
    print(token, flush=True)
    after(number)
"""
PLAIN = MODEL + "after = lambda number: None\n" + GENERATE


def ending(action: str) -> str:
    """A program that does `action` after its fifth token."""
    return MODEL + f"def after(number):\n    if number == 4:\n        {action}\n" + GENERATE


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "MLX_DISABLE_COMPILE": "1", "HF_HUB_OFFLINE": "1", **more}


def bare(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program as it is."""
    return run(folder, [sys.executable, str(written(folder, text)), *arguments])


def recorded(
    folder: Path, text: str, *options: str, arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program under the recorder, into `t.yaml` of the folder."""
    program = [sys.executable, str(written(folder, text)), *arguments]
    return record(folder, program, *options)


def record(folder: Path, program: list[str], *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run any command line under the recorder, into `t.yaml` of the folder."""
    return run(folder, [str(SCRIPT), "record", "-o", "t.yaml", *options, "--", *program], **env)


def run(folder: Path, command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    settings: Any = {"capture_output": True, "text": True, "timeout": 120, "check": False}
    return subprocess.run(command, cwd=folder, env=environment(**env), **settings)


def written(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def forwards(trace: Trace) -> int:
    return sum(entry.kind in FORWARD_PHASES for entry in trace.entries)


def trace_of(folder: Path, name: str = "t.yaml") -> Trace:
    return read(folder / name)
