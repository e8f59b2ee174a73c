"""Fields of a published config that follow from a saved one, for families whose config needs them. Pure.

A rule takes the saved config of the text model, and returns the fields that it adds or replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlxdiag.errors import UsageError

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"

Config = Mapping[str, Any]
Fields = Callable[[Config], dict[str, Any]]


def derived(config: Config, names: Sequence[str]) -> dict[str, Any]:
    """What these rules give, one after the other.

    Raises:
        UsageError: there is no rule of that name.
    """
    found: dict[str, Any] = {}
    for name in names:
        if name not in RULES:
            raise UsageError(f"families.yaml: no rule {name!r}; known: {', '.join(RULES)}")
        found.update(RULES[name](config))
    return found


def head_dim(config: Config) -> dict[str, Any]:
    """A head's share of the width, where saved configs leave it to the reader."""
    return {"head_dim": config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]}


def global_heads(config: Config) -> dict[str, Any]:
    """The size and the key heads of full layers, saved for each layer that departs from the others."""
    full = _layer_of(config, FULL)
    names = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
    return {new: full.get(old, config.get(old)) for old, new in names.items()}


def pattern_letters(config: Config) -> dict[str, Any]:
    """`LG` for a sliding layer and a full one in turns: as few letters as repeat."""
    letters = "".join("L" if kind == SLIDING else "G" for kind in config["layer_types"])
    shortest = next(n for n in range(1, len(letters) + 1) if _repeats(letters, n))
    return {"sliding_window_pattern": letters[:shortest]}


def full_interval(config: Config) -> dict[str, Any]:
    """Every n-th layer is full."""
    return {"full_attention_interval": config["layer_types"].index(FULL) + 1}


def expert_layers(config: Config) -> dict[str, Any]:
    """Which layers have experts, in the forms of three families."""
    sparse = [kind == "sparse" for kind in config["mlp_layer_types"]]
    listed = ",".join(str(index) for index, one in enumerate(sparse) if one)
    return {"is_moe_layer": sparse, "moe_layer_freq": [int(one) for one in sparse], "moe_layers_enum": listed}


def expert_step(config: Config) -> dict[str, Any]:
    """Every n-th layer has experts."""
    return {"interleave_moe_layer_step": config["moe_layers"][0] + 1}


def feed_forward_block(config: Config) -> dict[str, Any]:
    return {"block_dim": config["hidden_size"], "block_ff_dim": config["intermediate_size"]}


def recurrent_width(config: Config) -> dict[str, Any]:
    return {"intermediate_size": int(config["expand"] * config["hidden_size"])}


def rotary_dim(config: Config) -> dict[str, Any]:
    """How much of a head is rotated."""
    share = (config.get("rope_parameters") or {}).get("partial_rotary_factor", 1.0)
    return {"rotary_dim": int(config["head_dim"] * share)}


def length(config: Config) -> dict[str, Any]:
    return {"n_ctx": config["n_positions"]}


def kinds_of_granite(config: Config) -> dict[str, Any]:
    names = {FULL: "attention", LINEAR: "mamba"}
    return {"layer_types": [names.get(kind, kind) for kind in config["layer_types"]]}


def kinds_of_mimo(config: Config) -> dict[str, Any]:
    """1 for a sliding layer; its window does not count the query, and its key heads are twice as many."""
    sliding = _layer_of(config, SLIDING)
    heads = sliding.get("num_key_value_heads", config["num_key_value_heads"] * 2)
    size = config["head_dim"]
    return {
        "hybrid_layer_pattern": [int(kind == SLIDING) for kind in config["layer_types"]],
        "sliding_window_size": config["sliding_window"] - 1,
        "swa_num_attention_heads": config["num_attention_heads"],
        "swa_num_key_value_heads": heads,
        "swa_head_dim": size,
        "swa_v_head_dim": config.get("v_head_dim", size),
    }


def kinds_of_kimi(config: Config) -> dict[str, Any]:
    """Layers by number, counted from one, with the sizes of the recurrent ones; dense layers come first."""
    kinds = config["layer_types"]
    linear = {
        "kda_layers": [index + 1 for index, kind in enumerate(kinds) if kind == LINEAR],
        "full_attn_layers": [index + 1 for index, kind in enumerate(kinds) if kind == FULL],
        "num_heads": config["linear_num_heads"],
        "head_dim": config["linear_head_dim"],
        "short_conv_kernel_size": config["linear_conv_kernel_dim"],
    }
    return {"linear_attn_config": linear, "first_k_dense_replace": config["mlp_layer_types"].count("dense")}


def kinds_of_bailing(config: Config) -> dict[str, Any]:
    """The size of a recurrent layer's head, which transformers saves beside that of the rotated part."""
    shared = config["moe_intermediate_size"]
    return {"head_dim": config["linear_head_dim"], "moe_shared_expert_intermediate_size": shared}


def sliding_heads(config: Config) -> dict[str, Any]:
    """Sliding layers have query heads of their own."""
    heads = _layer_of(config, SLIDING).get("num_attention_heads", config["num_attention_heads"])
    return {
        "attention_other_setting": {
            "attention_type": SLIDING,
            "num_attention_heads": heads,
            "num_attention_groups": config["num_key_value_heads"],
            "head_dim": config["head_dim"],
        }
    }


RULES: Mapping[str, Fields] = {
    "head_dim": head_dim,
    "global_heads": global_heads,
    "pattern_letters": pattern_letters,
    "full_interval": full_interval,
    "expert_layers": expert_layers,
    "expert_step": expert_step,
    "feed_forward_block": feed_forward_block,
    "recurrent_width": recurrent_width,
    "rotary_dim": rotary_dim,
    "length": length,
    "kinds_of_granite": kinds_of_granite,
    "kinds_of_mimo": kinds_of_mimo,
    "kinds_of_kimi": kinds_of_kimi,
    "kinds_of_bailing": kinds_of_bailing,
    "sliding_heads": sliding_heads,
}
"""By the name that `families.yaml` uses."""


def _layer_of(config: Config, kind: str) -> dict[str, Any]:
    """What is saved for the first layer of a kind alone."""
    kinds = config["layer_types"]
    own = config.get("per_layer_config") or {}
    found: dict[str, Any] = own.get(str(kinds.index(kind)), {}) if kind in kinds else {}
    return found


def _repeats(letters: str, length: int) -> bool:
    return all(letters[at] == letters[at % length] for at in range(len(letters)))
