"""What is known of families in mlx-lm alone: what it lacks and wraps. Data."""

from __future__ import annotations

ABSENT: dict[str, tuple[str, str]] = {
    "baichuan": (
        "mlx-lm has no plain baichuan",
        "baichuan_m1, whose sliding layers are listed in sliding_window_layers",
    ),
    "diffusion_gemma": (
        "mlx-lm has no diffusion_gemma; mlx-vlm 0.7 has it, for which there is no adapter yet",
        "transformers has it (--backend torch); gemma4 is the nearest family here",
    ),
}
"""Families that people ask for by these names and that the library does not have: (reason, hint)."""

TEXT_ONLY = {"gemma3n_text": "gemma3n", "llama4_text": "llama4"}
"""Text models that the library only has inside a wrapper."""

EMPTIED: dict[str, str] = {"phi3small": "_dummy_tokenizer_ids"}
"""By architecture: an attribute of the model with ids of the full vocabulary, whose logits it masks.
MLX does not check the bounds of an assignment: in a tiny vocabulary that writes over other memory."""
