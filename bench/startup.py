"""How long the program takes to say anything, against the bare import of its argument parser."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mlxdiag
from bench.clock import Result, at_most, by_turns

SCRIPT = Path(sys.executable).with_name("mlxdiag")
SAMPLE = Path(__file__).parents[1] / "traces" / "gemma4-chunked-prefill.yaml"
BARE = "import typer"


def measure(rounds: int) -> list[Result]:
    """Whole processes, with byte code in place as after any installation."""
    compileall.compile_dir(Path(mlxdiag.__file__).parent, quiet=2)
    times = by_turns(
        {
            "bare": _process(sys.executable, "-c", BARE),
            "--help": _process(SCRIPT, "--help"),
            "inspect of the first sample": _process(SCRIPT, "inspect", SAMPLE),
        },
        rounds * 2,
    )
    bare = times.pop("bare")
    return [
        at_most(f"start: {name}", f"{1000 * taken:.0f} ms, {BARE} {1000 * bare:.0f} ms", taken / bare, 2)
        for name, taken in times.items()
    ]


def _process(*command: str | Path) -> Callable[[], object]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run(command, capture_output=True, env=env, check=False)
