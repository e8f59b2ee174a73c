"""What recording costs: building the graph of a decode step and of a prefill chunk, recorded and not.

The model has 30 layers with random weights. Turns are interleaved, and a ratio is the median over pairs of
neighbours. Of a graph only the building is timed: MLX is lazy, and evaluates it the same either way.
"""

from __future__ import annotations

import cProfile
import importlib
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text

import mlxdiag
from bench.clock import Result, at_most, fact

LAYERS = 30
STEPS = 6
PAIRS = 5
"""In each round."""
CHUNK = 512
WALL_STEPS = 8
"""Steps that are evaluated too: 100 M parameters take their time on a CPU."""

Watch = Callable[[], AbstractContextManager[Any]]


def measure(rounds: int) -> Iterator[Result]:
    small = model(width=128)
    yield from graph_building(small, rounds)
    yield from beside(small, rounds)
    large = model(width=640)
    yield from wall(large, rounds)


def model(width: int) -> Any:
    mx.random.seed(0)
    made = gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text",
            hidden_size=width,
            num_hidden_layers=LAYERS,
            intermediate_size=2 * width,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=max(width // 8, 32),
            vocab_size=30_000 if width > 256 else 1000,
            sliding_window=512,
            sliding_window_pattern=6,
        )
    )
    mx.eval(made.parameters())
    return made


def graph_building(made: Any, rounds: int) -> Iterator[Result]:
    """The goal of the design: at most a tenth of mlx-lm's own graph building."""
    for what, q in (("a decode step", 1), (f"a chunk of {CHUNK}", CHUNK)):
        alone, ratio = in_pairs(made, recording, q, PAIRS * rounds)
        measured = f"{1e6 * alone:.0f} us, and {1e6 * alone * (ratio - 1):.0f} us for the record"
        yield at_most(f"recording {what}: its graph", measured, ratio, 1.10)


def wall(made: Any, rounds: int) -> Iterator[Result]:
    """At most one percent of a decode step: all that the recorder does is done when the graph is built."""
    size = f"{sum(array.size for _, array in tree_flatten(made.parameters())) / 1e6:.0f} M parameters"
    alone, ratio = in_pairs(made, recording, 1, PAIRS * rounds)
    whole = evaluated(made)
    measured = f"{1000 * whole:.0f} ms, and {1000 * alone * (ratio - 1):.2f} ms for the record"
    what = f"recording a decode step of {size}: all of it"
    yield at_most(what, measured, 1 + alone * (ratio - 1) / whole, 1.01)


def beside(made: Any, rounds: int) -> Iterator[Result]:
    """The same loop under tools that watch every function."""
    for name, watch in (("cProfile", profiled), ("viztracer", traced)):
        if name == "viztracer" and not installed(name):
            yield fact(f"a decode step under {name}: its graph", "skipped: pip install viztracer")
            continue
        _, ratio = in_pairs(made, watch, 1, PAIRS * rounds)
        yield fact(f"a decode step under {name}: its graph", f"{ratio:.2f} times as long")


def in_pairs(made: Any, watch: Watch, q: int, pairs: int) -> tuple[float, float]:
    """Median seconds for the graph of one forward alone, and the median ratio of a watched one to it.

    Many short turns: a slow moment of the machine then spoils one pair, not half of them.
    """
    taken = [pair(made, watch, q, turn) for turn in range(pairs + 1)][1:]
    alone = statistics.median(plain for plain, _ in taken)
    return alone, statistics.median(watched / plain for plain, watched in taken)


def pair(made: Any, watch: Watch, q: int, turn: int) -> tuple[float, float]:
    """Plain and watched; which one comes first alternates, for the first pays for what was left behind."""
    order = (nullcontext, watch) if turn % 2 else (watch, nullcontext)
    first, second = (build(made, one, q) for one in order)
    return (first, second) if turn % 2 else (second, first)


def build(made: Any, watch: Watch, q: int) -> float:
    """Median seconds for the graph of one forward of `q` tokens; the first one, which warms up, left out.

    Decode steps are evaluated in between, untimed, as a program would; a chunk would take too long here, and
    begins with an empty cache each time instead.
    """
    caches = made.make_cache()
    ids = mx.zeros((1, q), dtype=mx.int32)
    taken = []
    with watch():
        for _ in range(STEPS + 1):
            start = time.thread_time()
            logits = made(ids, cache=caches)
            taken.append(time.thread_time() - start)
            if q == 1:
                mx.eval(logits)
            else:
                caches = made.make_cache()
    return statistics.median(taken[1:])


def evaluated(made: Any) -> float:
    """Median seconds for a decode step with all that it computes."""
    caches = made.make_cache()
    ids = mx.zeros((1, 1), dtype=mx.int32)
    taken = []
    for _ in range(WALL_STEPS + 1):
        start = time.perf_counter()
        mx.eval(made(ids, cache=caches))
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


@contextmanager
def recording() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, mlxdiag.recording(Path(folder, "t.yaml")):
        yield


@contextmanager
def profiled() -> Iterator[None]:
    with cProfile.Profile():
        yield


@contextmanager
def traced() -> Iterator[None]:
    tracer = importlib.import_module("viztracer").VizTracer(verbose=0, log_async=False)
    tracer.start()
    try:
        yield
    finally:
        tracer.stop()


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
