"""What recording a transformers program costs: processes that run the same forwards, watched and not, take
turns, as in `bench.recording`.

torch computes at once, so a forward's seconds are all of it. The record's own part is measured on a small
model, where it is not lost in the noise of large products, and set against a forward of a large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench.clock import Result, at_most, fact
from bench.recording import CHUNK, LARGE, SMALL, TURNS, Pairs, median, part_of, started, take

FORWARDS = "bench.torch_forwards"
TOKENS = 16


def measure(rounds: int) -> Iterator[Result]:
    step: Pairs = {}
    chunk: Pairs = {}
    answer: Pairs = {}
    with ExitStack() as stack:
        workers = started(stack, ["plain", "shapes"], SMALL, FORWARDS)
        take(workers, "step", 1, TURNS * rounds, step)
        take(workers, "step", CHUNK, rounds, chunk)
        take(workers, "generate", TOKENS, rounds, answer)
    with ExitStack() as stack:
        plain = started(stack, ["plain"], LARGE, FORWARDS)["plain"]
        seconds, of_chunk, size = plain.turn("step", 1), plain.turn("step", CHUNK), plain.parameters
    alone, ratio = median(step["shapes"])
    measured = f"{1e3 * alone:.1f} ms, and {1e6 * alone * (ratio - 1):.0f} us for the record"
    yield fact("transformers: a decode step of 30 small layers", measured)
    alone, ratio = median(answer["shapes"])
    yield at_most("transformers: generate, a token, the same", f"{1e3 * alone:.1f} ms", ratio, 1.1)
    large = f"{size} M parameters"
    yield part_of(f"transformers: recording a decode step, {large}", step["shapes"], seconds, 1.01)
    yield part_of(f"transformers: recording a chunk of {CHUNK}, {large}", chunk["shapes"], of_chunk, 1.02)
