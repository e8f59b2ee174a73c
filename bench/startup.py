"""How long the program takes to say anything, against the bare import of its argument parser.

Processor time, of which these processes use one core: a clock on the wall would time the neighbours too.
"""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
from pathlib import Path

import mlxdiag
from bench.clock import Result, at_most

SCRIPT = Path(sys.executable).with_name("mlxdiag")
SAMPLE = Path(__file__).parents[1] / "traces" / "gemma4-chunked-prefill.yaml"
BARE = "import typer"


def measure(rounds: int) -> list[Result]:
    """Whole processes, with byte code in place as after any installation."""
    compileall.compile_dir(Path(mlxdiag.__file__).parent, quiet=2)
    commands: dict[str, list[str | Path]] = {
        "bare": [sys.executable, "-c", BARE],
        "--help": [SCRIPT, "--help"],
        "inspect of the first sample": [SCRIPT, "inspect", SAMPLE],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(3 * rounds):
        for name, command in commands.items():
            taken[name].append(_processor_seconds(command))
    times = {name: statistics.median(seconds) for name, seconds in taken.items()}
    bare = times.pop("bare")
    return [
        at_most(f"start: {name}", f"{1000 * mine:.0f} ms, {BARE} {1000 * bare:.0f} ms", mine / bare, 2)
        for name, mine in times.items()
    ]


def _processor_seconds(command: list[str | Path]) -> float:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
