"""What the public configs say, written down by hand: family -> (layers, window, layers that share keys).

Sources: the model cards and published config.json files (Gemma 3: five local layers to one global, 1024 wide,
512 in the 1B; gpt-oss: alternating, 128; Cohere Command R7B: three to one, 4096; and so on).
"""

from __future__ import annotations

WHOLE: dict[str, dict[str, tuple[int, int | None, int]]] = {
    "llama": {"full": (16, None, 0)},
    "qwen3": {"full": (28, None, 0)},
    "gemma2": {"sliding": (21, 4096, 0), "full": (21, None, 0)},
    "gemma3_text": {"sliding": (22, 512, 0), "full": (4, None, 0)},
    "gemma3": {"sliding": (29, 1024, 0), "full": (5, None, 0)},
    "gemma3n": {"sliding": (28, 512, 12), "full": (7, None, 3)},
    "gemma4_text": {"sliding": (35, 512, 15), "full": (7, None, 3)},
    "gemma4": {"sliding": (35, 512, 15), "full": (7, None, 3)},
    "diffusion_gemma_text": {"sliding": (25, 512, 0), "full": (5, None, 0)},
    "diffusion_gemma": {"sliding": (25, 512, 0), "full": (5, None, 0)},
    "gpt_oss": {"sliding": (12, 128, 0), "full": (12, None, 0)},
    "mellum": {"sliding": (21, 1024, 0), "full": (7, None, 0)},
    "exaone4": {"sliding": (48, 4096, 0), "full": (16, None, 0)},
    "exaone_moe": {"sliding": (36, 128, 0), "full": (12, None, 0)},
    "ministral3": {"sliding": (26, 4096, 0), "full": (8, None, 0)},
    "step3p5": {"full": (12, None, 0), "sliding": (33, 512, 0)},
    "cohere2": {"sliding": (24, 4096, 0), "full": (8, None, 0)},
    "olmo3": {"sliding": (24, 4096, 0), "full": (8, None, 0)},
    "baichuan_m1": {"full": (20, None, 0), "sliding": (20, 8192, 0)},
    "recurrent_gemma": {"recurrent": (18, None, 0), "sliding": (8, 2048, 0)},
}

TINY: dict[str, dict[str, tuple[int, int | None, int]]] = {
    "llama": {"full": (2, None, 0)},
    "qwen3": {"full": (2, None, 0)},
    "gemma2": {"sliding": (2, 4096, 0), "full": (2, None, 0)},
    "gemma3_text": {"sliding": (5, 512, 0), "full": (1, None, 0)},
    "gemma3": {"sliding": (5, 1024, 0), "full": (1, None, 0)},
    "gemma3n": {"sliding": (5, 512, 1), "full": (2, None, 1)},
    "gemma4_text": {"sliding": (6, 512, 1), "full": (2, None, 1)},
    "gemma4": {"sliding": (6, 512, 1), "full": (2, None, 1)},
    "gpt_oss": {"sliding": (2, 128, 0), "full": (2, None, 0)},
    "mellum": {"sliding": (3, 1024, 0), "full": (1, None, 0)},
    "exaone4": {"sliding": (3, 4096, 0), "full": (1, None, 0)},
    "exaone_moe": {"sliding": (3, 128, 0), "full": (1, None, 0)},
    "ministral3": {"sliding": (3, 4096, 0), "full": (1, None, 0)},
    "step3p5": {"full": (1, None, 0), "sliding": (3, 512, 0)},
    "cohere2": {"sliding": (3, 4096, 0), "full": (1, None, 0)},
    "olmo3": {"sliding": (3, 4096, 0), "full": (1, None, 0)},
    "baichuan_m1": {"full": (2, None, 0), "sliding": (2, 8192, 0)},
    "recurrent_gemma": {"recurrent": (4, None, 0), "sliding": (2, 2048, 0)},
}
"""Whole periods of at least four layers; where keys are shared, one more layer of each kind that borrows."""


def summary(families: dict[str, object]) -> dict[str, tuple[int | None, int | None, int]]:
    """Families in the form of the tables above."""
    return {name: (f.count, f.window, f.shares or 0) for name, f in families.items()}  # type: ignore[attr-defined]
