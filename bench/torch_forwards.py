"""`python -m bench.torch_forwards WATCH WIDTH`: as `bench.forwards`, with transformers' gemma3 on the CPU.

A turn `step Q` is a forward of Q tokens, `generate N` an answer of N tokens by `generate`, told per token.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch
from transformers import DynamicCache, Gemma3ForCausalLM, Gemma3TextConfig

LAYERS, HEADS, VOCABULARY = 30, 4, 4096
PROMPT = 64
STEPS = 6


def main(width: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    made = model(width)
    print(sum(parameter.numel() for parameter in made.parameters()) // 10**6, flush=True)
    cache = DynamicCache(config=made.config)
    with torch.no_grad():
        made(torch.ones(1, PROMPT, dtype=torch.long), cache=cache)
    for line in sys.stdin:
        part, count = line.split()
        print(answer(made, int(count)) if part == "generate" else step(made, cache, int(count)), flush=True)


def step(made: Any, cache: Any, q: int) -> float:
    """CPU seconds of the process, which leave out what a busy machine spends on others."""
    ids = torch.ones(1, q, dtype=torch.long)
    taken = []
    for _ in range(STEPS + 1 if q == 1 else 1):
        held = cache if q == 1 else DynamicCache(config=made.config)
        start = time.process_time()
        with torch.no_grad():
            made(ids, cache=held)
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:] or taken)


def answer(made: Any, count: int) -> float:
    ids = torch.ones(1, 1, dtype=torch.long)
    start = time.process_time()
    made.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False)
    return (time.process_time() - start) / count


def model(width: int) -> Any:
    kinds = ["full_attention" if (index + 1) % 6 == 0 else "sliding_attention" for index in range(LAYERS)]
    config = Gemma3TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        head_dim=width // HEADS,
        sliding_window=512,
        layer_types=kinds,
    )
    return Gemma3ForCausalLM(config).eval()


if __name__ == "__main__":
    main(int(sys.argv[2]))
