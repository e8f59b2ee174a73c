"""What recording costs: processes that run the same forwards, watched and not, take turns.

Each is a process of its own, as a recorded program is; patching and unpatching one process over and over
would cost the interpreter its caches. The model has 30 layers with random weights. A ratio is the median
over pairs of neighbouring turns. MLX is lazy: the recorder's part of a forward is done when its graph is
built, save for digests, which are evaluated with it.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.clock import Result, at_most, fact
from mlxdiag.record.launcher import variables
from mlxdiag.record.options import Options

TURNS = 4
"""In each round."""
LAYOUTS = 4
"""Sets of processes: one may be faster than its twin all its life, by where its memory happens to lie."""
LARGE_LAYOUTS = 2
SMALL, LARGE = 128, 640
"""Widths. The graph of the small one takes as long to build, and far less to evaluate."""
CHUNK = 512
TRACERS = ("viztracer", "cProfile")

Pairs = dict[str, list[tuple[float, float]]]
"""Of each watched subject: seconds of the plain loop, and its own, in neighbouring turns."""


def measure(rounds: int) -> Iterator[Result]:
    yield from small(TURNS * rounds)
    yield from large(rounds)


def small(turns: int) -> Iterator[Result]:
    """The same loop plain, recorded, and under two tracers."""
    tracers = [name for name in TRACERS if importlib.util.find_spec(name) is not None]
    pairs: Pairs = {}
    for layout in range(LAYOUTS):
        subjects = ["shapes", *(tracers if layout < LAYOUTS // 2 else ())]
        with ExitStack() as stack:
            workers = started(stack, ["plain", *subjects], SMALL)
            take(workers, "graph", 1, turns, pairs)
    alone, ratio = median(pairs["shapes"])
    yield fact("a decode step: its graph", f"{1e6 * alone:.0f} us, {len(pairs['shapes'])} pairs")
    measured = f"{1e6 * alone * (ratio - 1):.0f} us for the record"
    yield at_most("the same, recorded", measured, ratio, 1.10)
    for name in TRACERS:
        if name in pairs:
            yield fact(f"the same under {name}", f"{median(pairs[name])[1]:.2f} times as long")
        else:
            yield fact(f"the same under {name}", f"not installed: pip install {name}")


def large(rounds: int) -> Iterator[Result]:
    """Forwards of a model of size, with all that they compute."""
    step: Pairs = {}
    chunk: Pairs = {}
    whole: Pairs = {}
    seconds = of_chunk = 0.0
    parameters = 0
    for layout in range(LARGE_LAYOUTS):
        with ExitStack() as stack:
            workers = started(stack, ["plain", "shapes", "digest"], LARGE)
            take(workers, "graph", 1, 2 * rounds, step)
            take(workers, "graph", CHUNK, 2 * rounds, chunk)
            take(workers, "all", 1, 2 * rounds, whole)
            plain = workers["plain"]
            seconds, parameters = plain.turn("all", 1), plain.parameters
            if layout == 0:
                of_chunk = plain.turn("all", CHUNK)
    size = f"{parameters} M parameters"
    yield part_of(f"recording a decode step, {size}", step["shapes"], seconds, 1.01)
    yield part_of(f"recording a chunk of {CHUNK}, {size}", chunk["shapes"], of_chunk, 1.02)
    yield part_of(f"recording a chunk with mask digests, {size}", chunk["digest"], of_chunk, 1.02)
    alone, ratio = median(whole["digest"])
    measured = f"{1000 * alone:.0f} ms, evaluated with the digests"
    yield at_most("recording a decode step with mask digests", measured, ratio, 1.02)


def part_of(what: str, pairs: Sequence[tuple[float, float]], seconds: float, goal: float) -> Result:
    """What the record adds to the graph, as a part of the whole forward's seconds."""
    alone, ratio = median(pairs)
    added = alone * (ratio - 1)
    measured = f"{1000 * seconds:.0f} ms, and {1000 * added:.2f} ms for the record"
    return at_most(what, measured, 1 + added / seconds, goal)


def median(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Seconds of the plain loop, and the ratio of the other one to its neighbour."""
    return statistics.median(a for a, _ in pairs), statistics.median(b / a for a, b in pairs)


def take(workers: dict[str, Worker], part: str, q: int, turns: int, pairs: Pairs) -> None:
    """Let the workers take turns, every other time in the opposite order."""
    names = list(workers)
    for turn in range(turns):
        order = names if turn % 2 else names[::-1]
        taken = {name: workers[name].turn(part, q) for name in order}
        for name in names[1:]:
            pairs.setdefault(name, []).append((taken["plain"], taken[name]))


def started(
    stack: ExitStack, watches: Sequence[str], width: int, forwards: str = "bench.forwards"
) -> dict[str, Worker]:
    """Workers that have built their models, all at once. `forwards`: the module that runs them."""
    workers = {watch: stack.enter_context(Worker(watch, width, forwards)) for watch in watches}
    for worker in workers.values():
        worker.wait()
    return workers


class Worker:
    """A process that runs some forwards whenever it is asked to, and says how long one took."""

    def __init__(self, watch: str, width: int, forwards: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.parameters = 0
        environment = dict(os.environ)
        if watch in ("shapes", "digest"):
            environment |= variables(Options(Path(self._folder.name, "t.yaml"), watch), os.environ)
        command = [sys.executable, "-m", forwards, watch, str(width)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait(self) -> None:
        """Until its model, of so many million parameters, is ready."""
        self.parameters = int(self._read())

    def turn(self, part: str, q: int) -> float:
        """Seconds, of one forward of `q` tokens."""
        assert self._process.stdin is not None
        print(part, q, file=self._process.stdin, flush=True)
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
