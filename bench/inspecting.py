"""How fast a long trace is judged, against decoding the same lines and doing nothing with them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec

from bench import files
from bench.clock import Result, at_least, at_most, by_turns, fact
from bench.startup import SCRIPT
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.types import Entry

RATE_BYTES = 12 << 20
SMALL_BYTES = 4 << 20
CONSTANT = 1.5
"""What is remembered of sequences is bounded, but a small file does not reach the bounds."""
WAIT = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def rate(rounds: int) -> list[Result]:
    """In this process and on one core: decode every line into its type; read as `inspect` reads; inspect."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rate.yaml"
        steps = files.write(path, RATE_BYTES)
        subjects = {"decode": decode, "read": read, "inspect": inspect}
        times = by_turns(
            {name: partial(run, path) for name, run in subjects.items()}, rounds, time.process_time
        )
    per_second = {name: steps / taken for name, taken in times.items()}
    against = f"decode alone {_thousands(per_second['decode'])}"
    return [
        at_least(
            "inspect against decode alone",
            f"{_thousands(per_second['inspect'])}, {against}",
            per_second["inspect"] / per_second["decode"],
            0.25,
        ),
        fact("read and check without the rules", f"{_thousands(per_second['read'])}, {against}"),
    ]


def memory(size: int) -> list[Result]:
    """Peak memory of the whole program on a file of `size` bytes, against a small file of the same kind."""
    with tempfile.TemporaryDirectory() as folder:
        small, big = Path(folder) / "small.yaml", Path(folder) / "big.yaml"
        files.write(small, SMALL_BYTES)
        files.write(big, size)
        little, much = peak(small), peak(big)
    measured = f"{much} MiB for {size >> 20} MB, {little} MiB for {SMALL_BYTES >> 20} MB"
    return [at_most("peak memory of inspect, big file against small", measured, much / little, CONSTANT)]


def decode(path: Path) -> None:
    """The bare minimum: each line into its type."""
    decoder = msgspec.json.Decoder(Entry)
    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"- "):
                decoder.decode(line[2:])


def read(path: Path) -> None:
    """As `inspect` reads."""
    with open_stream(path) as stream:
        for _ in stream:
            pass


def inspect(path: Path) -> None:
    """The whole judgement. Raises RuntimeError when the healthy file is not found healthy."""
    with open_stream(path) as stream:
        inspector = Inspector(stream.header)
        for entry in stream:
            inspector.feed(entry)
    report = inspector.close()
    if report.findings or report.summary.not_observed:
        raise RuntimeError(f"the generated trace is not healthy: {report.findings[:1]}, {report.summary}")


def peak(path: Path) -> int:
    """MiB that the program held at most (the resident set, as the kernel counts it).

    A process starts with its parent's peak on Linux, hence the small one in between.
    """
    command = [sys.executable, "-c", WAIT, sys.executable, str(SCRIPT), "inspect", str(path)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    code, most = map(int, ran.stdout.split())
    if code:
        raise RuntimeError(f"inspect ended with {code}")
    return most // (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _thousands(per_second: float) -> str:
    return f"{per_second / 1000:.0f} k steps/s"
