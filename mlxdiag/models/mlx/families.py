"""What is known of families in mlx-lm alone: what it lacks, and how their random weights are drawn. Data."""

from __future__ import annotations

import msgspec

ABSENT: dict[str, tuple[str, str]] = {
    "baichuan": (
        "mlx-lm has no plain baichuan",
        "baichuan_m1, whose sliding layers are listed in sliding_window_layers",
    ),
    "diffusion_gemma": (
        "mlx-lm has no diffusion_gemma; mlx-vlm 0.7 has it, for which there is no adapter yet",
        "gemma4, the nearest family",
    ),
}
"""Families that people ask for by these names and that the library does not have: (reason, hint)."""

TEXT_ONLY = {"gemma3n_text": "gemma3n", "llama4_text": "llama4"}
"""Text models that the library only has inside a wrapper."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """How the random weights of a family depart from the rule in `weights.py`."""

    query: float = 3.0
    """Factor on the queries, chosen so that attention scores spread by about 3 to 4: flatter, one key more or
    less drowns in rounding; sharper, most queries see one key only and the oldest ones never show."""
    scaled_embedding: bool = False
    """The model multiplies embeddings by sqrt(hidden size); drawn with 1 they would drown every layer."""
    vectors: dict[str, float] = {}
    """Mean of parameters, by the last part of their name, where the library's own start is of no use."""


_GEMMA = Draw(query=0.8, scaled_embedding=True)
"""Norms multiply by 1 + weight, which starts at 2 for queries and keys alike."""
_UNSCALED = Draw(query=0.6, scaled_embedding=True)
"""Queries and keys are normalised and their product is not divided by sqrt(head size)."""

EMPTIED: dict[str, str] = {"phi3small": "_dummy_tokenizer_ids"}
"""By architecture: an attribute of the model with ids of the full vocabulary, whose logits it masks.
MLX does not check the bounds of an assignment: in a tiny vocabulary that writes over other memory."""

DRAWS: dict[str, Draw] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gemma3n_text": _UNSCALED,
    "gemma4_text": _UNSCALED,
    # At the library's start of 0 the recurrence forgets within two tokens; at -4 it remembers some fifteen.
    "recurrent_gemma": Draw(query=0.8, scaled_embedding=True, vectors={"recurrent_param": -4.0}),
    # At the library's step of 1 the state forgets within eleven tokens: a wrong one hides behind a prefix.
    "mamba2": Draw(vectors={"dt_bias": -2.0}),
    # Queries and keys are also scaled by the square root of width over rank.
    "longcat_flash": Draw(query=0.8),
    "longcat_flash_ngram": Draw(query=0.8),
    # Its yarn scaling sharpens scores too.
    "mistral4": Draw(query=1.5),
    # Norms multiply by 1 + weight, which starts at 2.
    "nemotron": Draw(query=0.8),
}
