"""What recording costs: processes that run the same forwards, recorded and not, take turns.

Each is a process of its own, as a recorded program is; patching and unpatching one process over and over
would cost the interpreter its caches. The model has 30 layers with random weights. A ratio is the median
over pairs of neighbouring turns. Of a graph only the building is timed: MLX is lazy, and evaluates it the
same either way.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.clock import Result, at_most, fact
from mlxdiag.record.launcher import variables
from mlxdiag.record.options import Options

TURNS = 4
"""In each round."""
LAYOUTS = 4
"""Pairs of processes: one may be faster than its twin all its life, by where its memory happens to lie."""
SMALL, LARGE = 128, 640
"""Widths. The graph of the small one takes as long to build, and far less to evaluate."""
CHUNK = 512


def measure(rounds: int) -> Iterator[Result]:
    turns = TURNS * rounds
    alone, ratio = compare("shapes", SMALL, 1, turns)
    measured = f"{1e6 * alone:.0f} us, and {1e6 * alone * (ratio - 1):.0f} us for the record"
    yield at_most("recording a decode step: its graph", measured, ratio, 1.10)
    yield whole("shapes", "a decode step", LARGE, 1, turns, 1.01)
    yield whole("shapes", f"a chunk of {CHUNK}", SMALL, CHUNK, turns, 1.02)
    yield whole("digest", "a decode step with mask digests", LARGE, 1, turns, 1.02)
    for name in ("cProfile", "viztracer"):
        what = f"a decode step under {name}: its graph"
        if importlib.util.find_spec(name) is None:
            yield fact(what, f"skipped: pip install {name}")
        else:
            yield fact(what, f"{compare(name, SMALL, 1, turns)[1]:.2f} times as long")


def whole(level: str, what: str, width: int, q: int, turns: int, goal: float) -> Result:
    """A forward with all that it computes: the recorder's part of it is done when the graph is built."""
    alone, ratio = compare(level, width, q, turns)
    with Worker("plain", width, q, "all") as worker:
        seconds = worker.turn()
    added = alone * (ratio - 1)
    measured = f"{1000 * seconds:.0f} ms, and {1000 * added:.2f} ms for the record"
    what = f"recording {what}, {worker.parameters} M parameters"
    return at_most(what, measured, 1 + added / seconds, goal)


def compare(watch: str, width: int, q: int, turns: int) -> tuple[float, float]:
    """Median seconds of a turn alone, and the median ratio of a watched one to its neighbour."""
    pairs = []
    for _ in range(LAYOUTS):
        with Worker("plain", width, q) as plain, Worker(watch, width, q) as watched:
            pairs += [_pair(plain, watched, turn) for turn in range(turns)]
    return statistics.median(a for a, _ in pairs), statistics.median(b / a for a, b in pairs)


def _pair(plain: Worker, watched: Worker, turn: int) -> tuple[float, float]:
    if turn % 2:
        return plain.turn(), watched.turn()
    second = watched.turn()
    return plain.turn(), second


class Worker:
    """A process that runs some forwards whenever it is asked to, and says how long one took."""

    def __init__(self, watch: str, width: int, q: int, part: str = "graph") -> None:
        self._folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ)
        if watch in ("shapes", "digest"):
            environment |= variables(Options(Path(self._folder.name, "t.yaml"), watch), os.environ)
        command = [sys.executable, "-m", "bench.forwards", watch, str(width), str(q), part]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.parameters = int(self._read())

    def turn(self) -> float:
        """Seconds, of one forward."""
        assert self._process.stdin is not None
        print("go", file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the benchmark's process ended with {self._process.wait()}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._folder.cleanup()
