"""How the zoo fills an argument class: names of fields and the value that each is given. Data.

Names speak for themselves over more than a hundred argument classes, so a family needs an entry in
`zoo.yaml` only for what its names do not tell. The head size stays at 32, the smallest that quantised caches
take; two key heads of two queries each show a head axis that is taken for a batch or a repeat axis.
"""

from __future__ import annotations

from typing import Any

from mlxdiag.models.configs import sizes

WINDOW = 8
"""Keys that a query of a sliding layer sees, and the block of a chunked one."""
VOCAB = 512
DEPTH, ALIKE = 4, 2
"""Layers where there are several kinds of them, and where all are alike."""
WIDE, NARROW = 128, 64
"""Hidden size where the head size follows from it, and where the config sets the head size itself."""
POSITIONS = 4096
"""Longer than any schedule, so that no length limit and no rescaling of positions comes into play."""

HEAD_DIMS = ("head_dim", "kv_channels", "hidden_size_per_head")

SIZES: dict[str, Any] = {
    **sizes.FIXED,
    **dict.fromkeys(sizes.VOCABULARIES, VOCAB),
    **dict.fromkeys(sizes.WINDOWS, WINDOW),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "block_size"), POSITIONS),
    **dict.fromkeys(("model_max_length", "original_max_position_embeddings"), POSITIONS),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_hidden_size", "mlp_hidden_size"), NARROW),
    **dict.fromkeys(("dense_intermediate_size", "shared_intermediate_size", "moe_hidden_size"), NARROW),
    **dict.fromkeys(("ff_intermediate_size", "hidden_dim", "intermediate_size_mlp", "block_ff_dim"), NARROW),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "share_expert_dim"), 32),
    **dict.fromkeys(("moe_shared_expert_intermediate_size", "expert_ffn_hidden_size"), 32),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 32),
    **dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), 32),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 32),
    **dict.fromkeys(("linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv", "short_conv_kernel_size"), 4),
    **dict.fromkeys(("state_size", "ssm_state_size", "mamba_d_state"), 16),
    **dict.fromkeys(("n_groups", "mamba_n_groups"), 1),
    **dict.fromkeys(("mamba_num_heads", "mamba_n_heads"), 4),
    **dict.fromkeys(("mamba_head_dim", "mamba_d_head"), 32),
    "time_step_rank": 8,
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group"), 1),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), 1),
    "num_shared_expert": 1,
    "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "num_nextn_predict_layers": 0,
    "altup_num_inputs": 2,
    "index_head_dim": 32,
    "index_n_heads": 2,
    "rotary_dim": 32,
    # No usual value, which a library that leaves the field unread would have, too; and caps that scores
    # (spread by 2 to 3) and logits reach: published ones of 20 to 50 would change none.
    "query_pre_attn_scalar": 64,
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping", "logits_soft_cap"), 5.0),
}
"""Set wherever the argument class has the field, unless its default is null."""

TYPICAL: dict[str, Any] = {
    "rms_norm_eps": 1e-5,
    **dict.fromkeys(("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "layernorm_epsilon"), 1e-5),
    "post_norm_eps": 1e-5,
    **dict.fromkeys(("rope_theta", "rotary_emb_base", "swa_rope_theta", "rope_local_base_freq"), 10000.0),
    "rotary_pct": 1.0,
    "partial_rotary_factor": 1.0,
    "rope_scaling": None,
    **dict.fromkeys(("attention_bias", "mlp_bias", "use_bias", "bias", "use_qkv_bias", "conv_bias"), False),
    "use_conv_bias": True,
    "mamba_proj_bias": False,
    "tie_word_embeddings": False,
    "norm_topk_prob": True,
    "use_qk_norm": True,
    "use_expert_bias": True,
    "decoder_sparse_step": 1,
    "moe_layer_freq": 1,
    "mlp_only_layers": [],
    "routed_scaling_factor": 1.0,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    **dict.fromkeys(("logits_scaling", "embedding_multiplier"), 2.0),
    "residual_multiplier": 0.5,
    "attention_multiplier": 0.2,
    "hidden_act": "silu",
    "conv_L_cache": 3,
}
"""Set only where the argument class insists on the field: what published configs mostly say."""

HIDDEN = ("hidden_size", "d_model", "n_embd", "model_dim", "dim", "embedding_size")
ALWAYS = ("head_dim", "num_key_value_heads", "layer_types")
"""Sizes that are set even where the default is null, which would derive them from others."""
