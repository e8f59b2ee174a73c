"""`python -m bench.forwards WATCH WIDTH Q PART`: a turn of forwards for each line on standard input.

Prints the model's size in millions of parameters, then the median seconds of each turn. Q is the tokens of a
forward, PART what is timed of it: its graph, or all that it computes.
"""

from __future__ import annotations

import cProfile
import importlib
import statistics
import sys
import time
from contextlib import nullcontext
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text

LAYERS = 30
STEPS, STEPS_IN_ALL = 6, 2


def main(watch: str, width: int, q: int, part: str) -> None:
    made = model(width)
    print(sum(array.size for _, array in tree_flatten(made.parameters())) // 10**6, flush=True)
    caches = made.make_cache()
    mx.eval(made(mx.zeros((1, 8), dtype=mx.int32), cache=caches))
    with watching(watch):
        for _ in sys.stdin:
            print(turn(made, caches, q, part), flush=True)


def turn(made: Any, caches: list[Any], q: int, part: str) -> float:
    """Decode steps are evaluated in between, untimed, as a program would; a chunk would take too long, and
    begins with an empty cache each time instead.
    """
    ids = mx.zeros((1, q), dtype=mx.int32)
    clock = time.thread_time if part == "graph" else time.perf_counter
    taken = []
    for _ in range((STEPS if part == "graph" else STEPS_IN_ALL) + 1):
        if q > 1:
            caches = made.make_cache()
        start = clock()
        logits = made(ids, cache=caches)
        if part == "all":
            mx.eval(logits)
        taken.append(clock() - start)
        if q == 1:
            mx.eval(logits)
    return statistics.median(taken[1:])


def watching(name: str) -> Any:
    """The recorder needs nothing here: the environment has started it."""
    if name == "cProfile":
        return cProfile.Profile()
    if name == "viztracer":
        return importlib.import_module("viztracer").VizTracer(verbose=0)
    return nullcontext()


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
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
