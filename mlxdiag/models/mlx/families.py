"""What a config means where it is silent, family by family. Data; every entry says why it is there.

Sources: the `ModelArgs` defaults of mlx-lm 0.32 and the configuration classes of transformers, which define
the meaning of a public config.json. Letters: L sliding, G full, R recurrent, C chunked; a pattern is
repeated.
"""

from __future__ import annotations

import msgspec


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """How one family reads a config that does not say."""

    pattern: str = "G"
    window: int | None = None
    depth: int | None = None
    """Layers, where the library has a default."""
    shared: int = 0
    """Late layers without keys of their own, where the config does not count them."""
    nope: bool = False
    """Full layers of a model that also has windowed ones carry no positional encoding."""
    sinks: bool = False
    softmax: str = "fused"
    needs_window: bool = False
    """The pattern holds only when the config names a window."""
    text: str | None = None
    """The model type of the nested text model, where a wrapper's `text_config` does not name it."""
    differs: str = ""
    """Where mlx-lm is known to do something else than the config says."""


_EVERY_LAYER = Habit(
    pattern="L",
    needs_window=True,
    differs="mlx-lm 0.32 reads no window from this config and attends to everything",
)

HABITS: dict[str, Habit] = {
    "gemma2": Habit(
        pattern="LG",
        window=4096,
        softmax="manual",
        differs="mlx-lm 0.32 keeps dense caches and builds one causal mask for every layer",
    ),
    "gemma3": Habit(text="gemma3_text"),
    "gemma3_text": Habit(
        pattern="LLLLLG",
        window=512,
        depth=26,
        differs="mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types",
    ),
    "gemma3n": Habit(text="gemma3n_text"),
    "gemma3n_text": Habit(pattern="LLLLG", window=512),
    "gemma4": Habit(text="gemma4_text"),
    "gemma4_unified": Habit(text="gemma4_text"),
    "gemma4_text": Habit(pattern="LLLLG", window=512, depth=35, shared=20),
    "gpt_oss": Habit(pattern="LG", window=128, depth=36, sinks=True),
    "exaone4": Habit(
        pattern="LLLG",
        needs_window=True,
        nope=True,
        differs="mlx-lm 0.32 reads sliding_window_pattern as a string and ignores layer_types",
    ),
    "exaone_moe": Habit(nope=True),
    "ministral3": Habit(
        pattern="L",
        needs_window=True,
        differs="mlx-lm 0.32 takes every layer as full when layer_types is absent, whatever the window",
    ),
    "mistral3": Habit(text="mistral"),
    "step3p5": Habit(pattern="LG", window=512),
    "cohere2": Habit(
        pattern="LLLG",
        window=4096,
        depth=32,
        nope=True,
        differs="mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types",
    ),
    "olmo3": Habit(pattern="LLLG"),
    "recurrent_gemma": Habit(pattern="RRL", window=2048),
    "llama4": Habit(text="llama4_text"),
    "llama4_text": Habit(pattern="CCCG", window=8192, nope=True),
    "afmoe": Habit(pattern="LLLG", nope=True),
    "mistral": _EVERY_LAYER,
    "mixtral": _EVERY_LAYER,
    "phi3": _EVERY_LAYER,
    "phimoe": _EVERY_LAYER,
    "starcoder2": _EVERY_LAYER,
    "mamba": Habit(pattern="R"),
    "mamba2": Habit(pattern="R"),
    "falcon_mamba": Habit(pattern="R"),
    "rwkv7": Habit(pattern="R"),
}

ABSENT: dict[str, tuple[str, str]] = {
    "baichuan": (
        "mlx-lm has baichuan_m1, and no plain baichuan",
        "use the baichuan_m1 family; its sliding layers are listed in sliding_window_layers",
    ),
    "diffusion_gemma": (
        "mlx-lm has no diffusion_gemma; mlx-vlm 0.7 has it",
        "pip install mlx-vlm brings the model code, for which there is no adapter yet",
    ),
}
"""Families that people ask for by these names and that the library does not have: (reason, hint)."""

TEXT_ONLY = {"gemma3n_text": "gemma3n", "llama4_text": "llama4"}
"""Text models that the library only has inside a wrapper."""
