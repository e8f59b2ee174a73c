"""`python -m bench.forwards WATCH WIDTH`: a turn of forwards for each line `PART Q` on standard input.

Prints the model's size in millions of parameters, then the median seconds of each turn. PART is what is timed
of a forward: `graph`, its building, or `all` that it computes. Q is its tokens.
"""

from __future__ import annotations

import cProfile
import importlib
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text

LAYERS = 30
STEPS, STEPS_IN_ALL = 6, 3


def main(watch: str, width: int) -> None:
    made = model(width)
    print(sum(array.size for _, array in tree_flatten(made.parameters())) // 10**6, flush=True)
    caches = made.make_cache()
    mx.eval(made(mx.zeros((1, 8), dtype=mx.int32), cache=caches))
    with watching(watch):
        for line in sys.stdin:
            part, q = line.split()
            print(turn(made, caches, part, int(q)), flush=True)


def turn(made: Any, caches: list[Any], part: str, q: int) -> float:
    """CPU seconds, which leave out what a busy machine spends on others: of this thread for the graph, of all
    for everything.

    Decode steps are evaluated in between, untimed, as a program would. A chunk begins with an empty cache and
    is evaluated only where that is what is timed, once, for it takes as long as many steps.
    """
    ids = mx.zeros((1, q), dtype=mx.int32)
    clock = time.thread_time if part == "graph" else time.process_time
    steps = STEPS if part == "graph" else STEPS_IN_ALL if q == 1 else 0
    taken = []
    for _ in range(steps + 1):
        held = caches if q == 1 else made.make_cache()
        start = clock()
        logits = made(ids, cache=held)
        if part == "all":
            mx.eval(logits)
        taken.append(clock() - start)
        if q == 1:
            mx.eval(logits)
    return statistics.median(taken[1:] or taken)


@contextmanager
def watching(name: str) -> Iterator[None]:
    """The recorder needs nothing here: the environment has started it."""
    if name == "cProfile":
        with cProfile.Profile():
            yield
    elif name == "viztracer":
        tracer = importlib.import_module("viztracer").VizTracer(verbose=0)
        tracer.start()
        yield
        tracer.stop()
    else:
        yield


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


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
