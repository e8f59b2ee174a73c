"""How the random weights of tiny models are drawn, whichever library holds them. Data and one rule."""

from __future__ import annotations

import msgspec

QUERY_NORMS = ("q_norm", "query_norm", "q_layernorm", "query_layernorm")
_QUERIES = ("q_proj", "wq", "q_b_proj")
_PACKED = ("W_pack", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "wqkv")
"""Queries, keys and values in one matrix: a factor falls on the scores twice."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """How the random weights of a family depart from the rule in `weights.py`."""

    query: float = 3.0
    """Factor on the queries, chosen so that attention scores spread by about 3 to 4: flatter, one key more or
    less drowns in rounding; sharper, most queries see one key only and the oldest ones never show."""
    scaled_embedding: bool = False
    """The model multiplies embeddings by sqrt(hidden size); drawn with 1 they would drown every layer."""
    one_more: bool = False
    """Norms multiply by 1 + weight. transformers starts these at 0, mlx-lm at 1: drawn around 1 in both."""
    vectors: dict[str, float] = {}
    """Mean of parameters, by the last part of their name, where the library's own start is of no use."""


_GEMMA = Draw(query=0.8, scaled_embedding=True, one_more=True)
"""Norms multiply by 1 + weight, which starts at 2 for queries and keys alike."""
_UNSCALED = Draw(query=0.6, scaled_embedding=True)
"""Queries and keys are normalised and their product is not divided by sqrt(head size)."""

DRAWS: dict[str, Draw] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "gemma3n_text": _UNSCALED,
    "gemma4_text": _UNSCALED,
    "gemma4_unified_text": _UNSCALED,
    "diffusion_gemma_text": _UNSCALED,
    "vaultgemma": _GEMMA,
    # At the library's start of 0 the recurrence forgets within two tokens; at -4 it remembers some fifteen.
    "recurrent_gemma": Draw(
        query=0.8, scaled_embedding=True, one_more=True, vectors={"recurrent_param": -4.0}
    ),
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


def sharpness(owner: str, normed: bool, query: float) -> float:
    """What a weight is multiplied by so that scores grow by `query`."""
    if normed:
        return query if owner in QUERY_NORMS else 1.0
    if owner in _QUERIES:
        return query
    return query**0.5 if owner in _PACKED else 1.0
