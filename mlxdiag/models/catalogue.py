"""Real geometries: one public checkpoint per family, so that a trace that names only a family can be
replayed. Data.

The values are those of the published config.json files as far as they are known to the author; what could
not be confirmed from a second public source is named in `uncertain`. Windows, layer patterns and special
ids matter here; widths only say what was cut.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from mlxdiag.errors import UsageError


class Real(msgspec.Struct, frozen=True, kw_only=True):
    """A published config."""

    checkpoint: str
    config: dict[str, Any]
    uncertain: tuple[str, ...] = ()
    """Fields that were not confirmed by a second source."""


def config(architecture: str) -> dict[str, Any]:
    """A copy of the config of a family's best-known checkpoint. Raises UsageError for an unknown family."""
    if architecture not in CATALOGUE:
        raise UsageError(f"no known config for {architecture!r}; known: {', '.join(sorted(CATALOGUE))}")
    return copy.deepcopy(CATALOGUE[architecture].config)


def _layers(letters: str, depth: int) -> list[str]:
    words = {"L": "sliding_attention", "G": "full_attention"}
    return [words[letters[index % len(letters)]] for index in range(depth)]


def _step3p5_rope(full: float, sliding: float) -> list[float]:
    return [full if index % 4 == 0 else sliding for index in range(48)]


def _sized(
    hidden: int, inner: int, depth: int, heads: Sequence[int], vocab: int, **more: Any
) -> dict[str, Any]:
    """The fields that nearly every config has; `heads` is (query heads, key heads, head size)."""
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": depth,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "vocab_size": vocab,
        **more,
    }


_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}
_GEMMA4_ROPE = {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
}
_GEMMA4_E4B = _sized(
    2560,
    10240,
    42,
    (8, 2, 256),
    262144,
    model_type="gemma4_text",
    global_head_dim=512,
    layer_types=_layers("LLLLLG", 42),
    sliding_window=512,
    num_kv_shared_layers=18,
    hidden_size_per_layer_input=256,
    vocab_size_per_layer_input=262144,
    attention_k_eq_v=False,
    enable_moe_block=False,
    use_double_wide_mlp=False,
    final_logit_softcapping=30.0,
    max_position_embeddings=131072,
    rms_norm_eps=1e-6,
    rope_parameters=_GEMMA4_ROPE,
    tie_word_embeddings=True,
    pad_token_id=0,
    eos_token_id=[1, 106],
)
_GEMMA3_4B = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 34,
    "sliding_window": 1024,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}

_DIFFUSION_GEMMA = {
    "model_type": "diffusion_gemma_text",
    **_sized(2304, 9216, 30, (8, 4, 256), 262144),
    "global_head_dim": 512,
    "num_experts": 128,
    "top_k_experts": 8,
    "moe_intermediate_size": 704,
    "sliding_window": 512,
    "layer_types": _layers("LLLLLG", 30),
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    },
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
"""The causal half, which writes the prompt into the cache; experts as in the Gemma 4 of that size."""

CATALOGUE: dict[str, Real] = {
    "llama": Real(
        checkpoint="meta-llama/Llama-3.2-1B-Instruct",
        config=_sized(
            2048,
            8192,
            16,
            (32, 8, 64),
            128256,
            model_type="llama",
            rms_norm_eps=1e-5,
            rope_theta=500000.0,
            rope_scaling=_LLAMA3_ROPE,
            max_position_embeddings=131072,
            tie_word_embeddings=True,
            eos_token_id=[128001, 128008, 128009],
        ),
    ),
    "qwen3": Real(
        checkpoint="Qwen/Qwen3-0.6B",
        config=_sized(
            1024,
            3072,
            28,
            (16, 8, 128),
            151936,
            model_type="qwen3",
            rms_norm_eps=1e-6,
            rope_theta=1000000.0,
            max_position_embeddings=40960,
            sliding_window=None,
            use_sliding_window=False,
            max_window_layers=28,
            tie_word_embeddings=True,
            eos_token_id=151645,
        ),
    ),
    "gemma2": Real(
        checkpoint="google/gemma-2-9b-it",
        config=_sized(
            3584,
            14336,
            42,
            (16, 8, 256),
            256000,
            model_type="gemma2",
            rms_norm_eps=1e-6,
            rope_theta=10000.0,
            sliding_window=4096,
            attn_logit_softcapping=50.0,
            final_logit_softcapping=30.0,
            query_pre_attn_scalar=256,
            max_position_embeddings=8192,
            pad_token_id=0,
            eos_token_id=[1, 107],
        ),
        uncertain=("eos_token_id",),
    ),
    "gemma3_text": Real(
        checkpoint="google/gemma-3-1b-it",
        config=_sized(
            1152,
            6912,
            26,
            (4, 1, 256),
            262144,
            model_type="gemma3_text",
            rms_norm_eps=1e-6,
            rope_theta=1000000,
            rope_local_base_freq=10000,
            query_pre_attn_scalar=256,
            sliding_window=512,
            sliding_window_pattern=6,
            max_position_embeddings=32768,
            pad_token_id=0,
            eos_token_id=[1, 106],
        ),
    ),
    "gemma3": Real(
        checkpoint="google/gemma-3-4b-it",
        config={
            "model_type": "gemma3",
            "vocab_size": 262208,
            "pad_token_id": 0,
            "eos_token_id": [1, 106],
            "text_config": _GEMMA3_4B,
        },
    ),
    "gemma3n": Real(
        checkpoint="google/gemma-3n-E4B-it",
        config={
            "model_type": "gemma3n",
            "pad_token_id": 0,
            "eos_token_id": [1, 106],
            "text_config": _sized(
                2048,
                0,
                35,
                (8, 2, 256),
                262400,
                model_type="gemma3n_text",
                layer_types=_layers("LLLLG", 35),
                sliding_window=512,
                num_kv_shared_layers=15,
                activation_sparsity_pattern=[0.95] * 10 + [0.0] * 25,
                vocab_size_per_layer_input=262144,
                hidden_size_per_layer_input=256,
                altup_num_inputs=4,
                altup_active_idx=0,
                altup_coef_clip=120.0,
                altup_correct_scale=True,
                laurel_rank=64,
                rms_norm_eps=1e-6,
                rope_theta=1000000.0,
                rope_local_base_freq=10000.0,
                final_logit_softcapping=30.0,
                max_position_embeddings=32768,
            )
            | {"intermediate_size": [16384] * 35},
        },
    ),
    "gemma4_text": Real(checkpoint="google/gemma-4-E4B-it (text model)", config=_GEMMA4_E4B),
    "gemma4": Real(
        checkpoint="google/gemma-4-E4B-it",
        config={
            "model_type": "gemma4",
            "vocab_size": 262144,
            "pad_token_id": 0,
            "eos_token_id": [1, 106],
            "text_config": _GEMMA4_E4B,
        },
        uncertain=("eos_token_id",),
    ),
    "gpt_oss": Real(
        checkpoint="openai/gpt-oss-20b",
        config=_sized(
            2880,
            2880,
            24,
            (64, 8, 64),
            201088,
            model_type="gpt_oss",
            layer_types=_layers("LG", 24),
            sliding_window=128,
            num_local_experts=32,
            num_experts_per_tok=4,
            rms_norm_eps=1e-5,
            rope_theta=150000,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            },
            max_position_embeddings=131072,
            attention_bias=True,
            pad_token_id=199999,
            eos_token_id=200002,
        ),
    ),
    "mellum": Real(
        checkpoint="JetBrains/Mellum2",
        config=_sized(
            2304,
            7168,
            28,
            (32, 4, 128),
            98304,
            model_type="mellum",
            layer_types=_layers("LLLG", 28),
            sliding_window=1024,
            use_sliding_window=True,
            max_window_layers=0,
            num_experts=64,
            num_experts_per_tok=8,
            moe_intermediate_size=896,
            norm_topk_prob=True,
            rms_norm_eps=1e-6,
            max_position_embeddings=131072,
            rope_parameters={
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 500000.0,
                    "factor": 16.0,
                    "original_max_position_embeddings": 8192,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "attention_factor": 1.2772588722239782,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
            },
            tie_word_embeddings=False,
            eos_token_id=28,
        ),
        uncertain=("checkpoint",),
    ),
    "exaone4": Real(
        checkpoint="LGAI-EXAONE/EXAONE-4.0-32B",
        config=_sized(
            5120,
            27392,
            64,
            (40, 8, 128),
            102400,
            model_type="exaone4",
            layer_types=_layers("LLLG", 64),
            sliding_window=4096,
            sliding_window_pattern="LLLG",
            rms_norm_eps=1e-5,
            rope_theta=1000000,
            rope_scaling=_LLAMA3_ROPE | {"factor": 16.0},
            max_position_embeddings=131072,
            tie_word_embeddings=False,
            pad_token_id=0,
            eos_token_id=361,
        ),
        uncertain=("pad_token_id",),
    ),
    "exaone_moe": Real(
        checkpoint="LGAI-EXAONE/K-EXAONE-236B-A23B",
        config=_sized(
            6144,
            18432,
            48,
            (64, 8, 128),
            153600,
            model_type="exaone_moe",
            layer_types=_layers("LLLG", 48),
            sliding_window=128,
            sliding_window_pattern="LLLG",
            is_moe_layer=[False] + [True] * 47,
            num_experts=128,
            num_experts_per_tok=8,
            num_shared_experts=1,
            moe_intermediate_size=2048,
            n_group=1,
            topk_group=1,
            norm_topk_prob=True,
            routed_scaling_factor=2.5,
            scoring_func="sigmoid",
            topk_method="noaux_tc",
            rms_norm_eps=1e-5,
            rope_theta=1000000,
            max_position_embeddings=262144,
            tie_word_embeddings=False,
            pad_token_id=0,
            eos_token_id=53,
        ),
        uncertain=("num_hidden_layers",),
    ),
    "ministral3": Real(
        checkpoint="mistralai/Ministral-3-8B-Instruct-2512 (text model), with a window and a pattern put in",
        config=_sized(
            4096,
            14336,
            34,
            (32, 8, 128),
            131072,
            model_type="ministral3",
            # The published checkpoints have no window; the library's code for one is what must be replayed
            # here.
            layer_types=_layers("LLLG", 34),
            sliding_window=4096,
            rms_norm_eps=1e-5,
            rope_parameters={
                "type": "yarn",
                "rope_type": "yarn",
                "rope_theta": 1000000.0,
                "factor": 16.0,
                "original_max_position_embeddings": 16384,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
            },
            max_position_embeddings=262144,
            tie_word_embeddings=False,
            pad_token_id=11,
            eos_token_id=2,
        ),
        uncertain=("layer_types", "sliding_window"),
    ),
    "step3p5": Real(
        checkpoint="stepfun-ai/Step-3.5-Flash",
        config={
            "model_type": "step3p5",
            "hidden_size": 4096,
            "intermediate_size": 11264,
            "num_hidden_layers": 45,
            "num_attention_heads": 64,
            "num_attention_groups": 8,
            "head_dim": 128,
            "vocab_size": 128896,
            "layer_types": _layers("GLLL", 48),
            "sliding_window": 512,
            "attention_other_setting": {
                "attention_type": "sliding_attention",
                "num_attention_heads": 96,
                "num_attention_groups": 8,
                "head_dim": 128,
            },
            "rope_theta": _step3p5_rope(5000000.0, 10000.0),
            "partial_rotary_factors": _step3p5_rope(0.5, 1.0),
            "yarn_only_types": ["full_attention"],
            "moe_num_experts": 288,
            "moe_top_k": 8,
            "moe_intermediate_size": 1280,
            "share_expert_dim": 1280,
            "moe_layers_enum": ",".join(str(index) for index in range(3, 45)),
            "moe_router_scaling_factor": 3.0,
            "norm_expert_weight": True,
            "swiglu_limits": [0.0] * 43 + [7.0, 7.0, 0.0, 0.0, 0.0],
            "swiglu_limits_shared": [0.0] * 44 + [16.0, 0.0, 0.0, 0.0],
            "use_head_wise_attn_gate": True,
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": 262144,
            "tie_word_embeddings": False,
            "eos_token_id": [1, 2, 128007],
        },
        uncertain=("swiglu_limits", "swiglu_limits_shared"),
    ),
    "cohere2": Real(
        checkpoint="CohereLabs/c4ai-command-r7b-12-2024",
        config=_sized(
            4096,
            14336,
            32,
            (32, 8, 128),
            256000,
            model_type="cohere2",
            sliding_window=4096,
            sliding_window_pattern=4,
            layer_norm_eps=1e-5,
            logit_scale=0.25,
            rope_theta=50000,
            max_position_embeddings=132096,
            pad_token_id=0,
            eos_token_id=255001,
        ),
        uncertain=("max_position_embeddings",),
    ),
    "olmo3": Real(
        checkpoint="allenai/Olmo-3-7B-Instruct",
        config=_sized(
            4096,
            11008,
            32,
            (32, 32, 128),
            100278,
            model_type="olmo3",
            layer_types=_layers("LLLG", 32),
            sliding_window=4096,
            rms_norm_eps=1e-6,
            rope_theta=500000,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 8.0,
                "original_max_position_embeddings": 8192,
                "attention_factor": 1.2079441541679836,
                "beta_fast": 32,
                "beta_slow": 1,
            },
            max_position_embeddings=65536,
            tie_word_embeddings=False,
            pad_token_id=100277,
            eos_token_id=100257,
        ),
        uncertain=("rope_scaling",),
    ),
    "baichuan_m1": Real(
        checkpoint="baichuan-inc/Baichuan-M1-14B-Instruct",
        config={
            "model_type": "baichuan_m1",
            "hidden_size": 5120,
            "intermediate_size": 17408,
            "num_hidden_layers": 40,
            "num_attention_heads": 20,
            "num_key_value_heads": 2,
            "num_swa_attention_heads": 40,
            "num_swa_key_value_heads": 8,
            "sliding_window": 8192,
            "sliding_window_layers": list(range(1, 40, 2)),
            "conv_window": 2,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "vocab_size": 133120,
            "max_position_embeddings": 32768,
            "tie_word_embeddings": False,
            "pad_token_id": 0,
            "eos_token_id": 2,
        },
        uncertain=("intermediate_size", "rope_theta", "vocab_size", "pad_token_id", "eos_token_id"),
    ),
    "recurrent_gemma": Real(
        checkpoint="google/recurrentgemma-2b-it",
        config={
            "model_type": "recurrent_gemma",
            "hidden_size": 2560,
            "intermediate_size": 15360,
            "num_hidden_layers": 26,
            "num_attention_heads": 10,
            "num_key_value_heads": 1,
            "vocab_size": 256000,
            "attention_window_size": 2048,
            "block_types": ["recurrent", "recurrent", "attention"],
            "attention_bias": False,
            "conv1d_width": 4,
            "logits_soft_cap": 30.0,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "embeddings_scale_by_sqrt_dim": True,
            "pad_token_id": 0,
            "eos_token_id": 1,
        },
    ),
    "diffusion_gemma_text": Real(
        checkpoint="the defaults of transformers 5.24",
        config=_DIFFUSION_GEMMA,
        uncertain=tuple(_DIFFUSION_GEMMA),
    ),
    "diffusion_gemma": Real(
        checkpoint="the defaults of transformers 5.24",
        config={"model_type": "diffusion_gemma", "text_config": _DIFFUSION_GEMMA},
        uncertain=("text_config",),
    ),
}
"""By the name of the architecture, wrappers beside their text models."""
