"""How small a tiny instance is: names of config fields and the size that each is given. Data.

The head size stays at 32, the smallest that quantised caches take, and grouped-query attention is forced to
two key heads of two queries each, so that a head axis taken for a batch or a repeat axis shows.
"""

from __future__ import annotations

HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 4, 2, 32, 128
MIN_VOCAB = 4096

FIXED: dict[str, int | float] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "model_dim", "dim", "embedding_size"), HIDDEN),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"), HEADS),
    **dict.fromkeys(("num_swa_attention_heads", "swa_num_attention_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_attention_groups"), KV_HEADS),
    **dict.fromkeys(("num_global_key_value_heads", "num_swa_key_value_heads"), KV_HEADS),
    "swa_num_key_value_heads": KV_HEADS,
    **dict.fromkeys(("head_dim", "global_head_dim", "kv_channels", "hidden_size_per_head"), HEAD_DIM),
    **dict.fromkeys(("swa_head_dim", "swa_v_head_dim", "v_head_dim", "query_pre_attn_scalar"), HEAD_DIM),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_hidden_size", "mlp_hidden_size"), HIDDEN),
    **dict.fromkeys(("ff_intermediate_size", "hidden_dim", "intermediate_size_mlp", "block_ff_dim"), HIDDEN),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "share_expert_dim"), 64),
    **dict.fromkeys(("moe_shared_expert_intermediate_size", "expert_ffn_hidden_size"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "top_k_experts", "moe_top_k", "moe_topk", "moe_k"), 2),
    "num_experts_per_token": 2,
    "hidden_size_per_layer_input": 16,
    "laurel_rank": 16,
    "qk_nope_head_dim": HEAD_DIM,
    "qk_rope_head_dim": HEAD_DIM,
    "kv_lora_rank": 64,
    "q_lora_rank": 64,
}
"""Set exactly, where the config has the field or the library needs it and its value is not null."""

ONE_STAYS = ("num_experts_per_tok", "num_experts_per_token")
"""Fixed, but for a config that says one: some families route to a single expert and refuse more."""

CAPPED: dict[str, int] = {
    "n_group": 2,
    "topk_group": 1,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "num_nextn_predict_layers": 0,
    "altup_num_inputs": 2,
}
"""Only ever made smaller."""

REQUIRED: dict[str, float | bool | None] = {
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "partial_rotary_factor": 1.0,
    "attention_bias": False,
    "mlp_bias": False,
    "norm_topk_prob": True,
}
"""For a config that lacks a field which the library insists on: newer ones keep it inside `rope_parameters`,
or leave out what equals transformers' default."""

VOCABULARIES = ("vocab_size", "vocab_size_per_layer_input", "num_vocab")

WINDOWS = (
    "sliding_window",
    "attention_window_size",
    "sliding_window_size",
    "window_size",
    "attention_chunk_size",
)
"""Kept as they are unless a caller asks for another window."""

DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_transformer_layers")

LETTER_STRINGS = ("hybrid_override_pattern",)
"""Fields with one letter per layer."""

INDEX_LISTS = ("sliding_window_layers", "full_attn_idxs", "mlp_only_layers", "moe_layers_enum")
"""Fields that hold layer indexes (a list, or a string with commas), to be renumbered."""
