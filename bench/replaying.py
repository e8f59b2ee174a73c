"""What watching costs: the first sample's forward calls with and without the probe."""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from typing import Any

import mlx.core as mx
import numpy as np

from bench.clock import Result, at_most, by_turns, fact
from bench.startup import SAMPLE
from mlxdiag.models.mlx import batching
from mlxdiag.models.mlx.probe import Probe
from mlxdiag.replay import experiment, prompts
from mlxdiag.replay.ops import Forward
from mlxdiag.replay.run import Runner
from mlxdiag.traces.reader import read

PREFIX = 600
"""Tokens held before the timed decode steps: past the window of every layer."""
STEPS = 40
MOST_ROUNDS = 3
"""One round takes long enough for its noise to even out."""


def measure(rounds: int) -> list[Result]:
    """The same tiny model for all subjects; what a replay prepares once is not timed."""
    prepared = experiment.prepare(read(SAMPLE), source=str(SAMPLE))
    instance = experiment.instance_for(prepared)
    made = prompts.prompts(prepared.plan, instance.vocab, tokens=instance.geometry.tokens, seed=0)

    def watched() -> None:
        Runner(instance, prepared.plan, made, prepared.plan.misfit, level="shapes").run()

    subjects = {"replay": watched, "bare": lambda: bare(instance, prepared.plan, made)}
    times = by_turns(subjects, min(rounds, MOST_ROUNDS))
    measured = f"{1000 * times['replay']:.0f} ms, the calls alone {1000 * times['bare']:.0f} ms"
    return [
        at_most("replay of the first sample, shapes level", measured, times["replay"] / times["bare"], 1.5),
        *per_layer(instance, rounds),
    ]


def bare(instance: Any, plan: Any, made: Any) -> None:
    """The plan's forward calls and nothing else: no probe, no caller's mask, no trace."""
    caches = instance.new_cache()
    for op in plan.ops:
        if isinstance(op, Forward):
            ids = np.stack([made[feed.seq].of(feed.codes) for feed in op.feeds])
            np.array(instance.forward(ids, caches).astype(mx.float32))
            batching.evaluate(caches)


def per_layer(instance: Any, rounds: int) -> list[Result]:
    """Microseconds that the probe adds to the building of a decode step's graph, per layer."""
    layers = len(instance.geometry.layers)
    plain: list[float] = []
    probed: list[float] = []
    for turn in range(rounds + 1):
        for watch, taken in ((False, plain), (True, probed)):
            seconds = decode(instance, watch)
            if turn:
                taken.append(seconds)
    alone, added = statistics.median(plain), statistics.median(probed) - statistics.median(plain)
    measured = f"{1e6 * added / layers:.1f} us a layer, the layer's graph alone {1e6 * alone / layers:.1f} us"
    return [fact("the probe on a decode step, shapes level", measured)]


def decode(instance: Any, watch: bool) -> float:
    """Median seconds to build one decode step's graph; its evaluation is not timed."""
    probe = Probe([].append, level="shapes") if watch else nullcontext()
    caches = instance.new_cache()
    mx.eval(instance.forward(np.zeros((1, PREFIX), dtype=np.int64) + 5, caches))
    token = np.full((1, 1), 7, dtype=np.int64)
    taken = []
    with probe:
        if isinstance(probe, Probe):
            probe.watch(instance.model)
        for _ in range(STEPS):
            start = time.perf_counter()
            logits = instance.forward(token, caches)
            taken.append(time.perf_counter() - start)
            mx.eval(logits)
    return statistics.median(taken)
