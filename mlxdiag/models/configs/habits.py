"""What a config means where it is silent, family by family. Data; every entry says why it is there.

Sources: the `ModelArgs` defaults of mlx-lm 0.32 and the configuration classes of transformers, which define
the meaning of a public config.json. Letters: L sliding, G full, R recurrent, C chunked; a pattern is
repeated.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """What a window is for that a config switches on with `use_sliding_window`."""

    where: Literal["from", "below", "all", "bare"] = "from"
    """Layers from `max_window_layers` on; `pattern` below that layer; `pattern` on all layers; layers without
    rotation, which are those of `pattern` where none are listed."""
    pattern: str = "L"
    layers: int | None = None
    """`max_window_layers`, where the config has none. Without any number no layer slides."""
    on: bool = False
    """Whether the window is on where the config has no switch."""


class Habit(msgspec.Struct, frozen=True, kw_only=True):
    """How one family reads a config that does not say. Without any window a pattern means full layers."""

    pattern: str = "G"
    lead: str = ""
    """Kinds of the first layers, in place of the pattern's."""
    one: str = ""
    """A kind that one layer must be: the last one, where the pattern has none so early."""
    backward: bool = False
    """The pattern ends with the last layer, rather than beginning with the first."""
    ahead: bool = False
    """Where a config counts how often a full layer comes, it is the first of its group, not the last."""
    switch: Switch = Switch()
    window: int | None = None
    depth: int | None = None
    """Layers, where the library has a default."""
    shared: int = 0
    """Late layers without keys of their own, where the config does not count them."""
    nope: bool = False
    """Full layers of a model that also has windowed ones carry no positional encoding."""
    rope: bool = True
    """False where no layer has a positional encoding."""
    before: str = ""
    """A field that, where it is present, gives the window as the number of keys before the query."""
    twice: str = ""
    """A field that, where it is present, gives twice the window."""
    sinks: bool = False
    softmax: str = "fused"
    last: str | None = None
    """Letter that the last layer has, whatever is listed."""
    reserved: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges of ids that no text uses, where they are known; a tokenizer knows better."""
    text: str | None = None
    """The model type of the nested text model, where a wrapper's `text_config` does not name it."""
    differs: str = ""
    """Where mlx-lm is known to do something else than the config says."""
    differs_if: tuple[str, bool] | None = None
    """A field, and whether it must be present, for `differs` to apply; None: always."""


_NO_WINDOW_CODE = "mlx-lm 0.32 reads no window from this config and attends to everything"
_EVERY_LAYER = Habit(pattern="L", differs=_NO_WINDOW_CODE)
_RECURRENT = Habit(pattern="R")

_QWEN = Habit(window=4096, switch=Switch(layers=28))
_BACKWARD = Habit(pattern="LLLG", window=2048, backward=True)
_INDEXED = Habit(pattern="LGLL", lead="GG")
"""Two full layers ahead, and then every fourth one."""
_INKLING = Habit(pattern="LLLLLG", window=1024, sinks=True)
_GRANITE = Habit(pattern="GLLL", window=128, sinks=True)
_INTERVAL = Habit(pattern="RRRG")

HABITS: dict[str, Habit] = {
    "llama": Habit(depth=32),
    "qwen2": replace(_QWEN, depth=32, differs=_NO_WINDOW_CODE),
    "qwen2_moe": Habit(
        window=4096, switch=Switch(where="below", pattern="LG", layers=28), differs=_NO_WINDOW_CODE
    ),
    "qwen2_vl_text": Habit(window=4096, switch=Switch(layers=80)),
    "qwen2_5_vl_text": Habit(window=4096, switch=Switch(layers=80)),
    "qwen3": replace(_QWEN, depth=32, differs=_NO_WINDOW_CODE),
    # Its model code asks for the window alone, never for max_window_layers.
    "qwen3_moe": Habit(window=4096, switch=Switch(where="all"), differs=_NO_WINDOW_CODE),
    "dots1": Habit(window=4096, switch=Switch(layers=62, on=True), differs=_NO_WINDOW_CODE),
    "smollm3": Habit(switch=Switch(where="bare", pattern="GGGL")),
    "gemma2": Habit(
        pattern="LG",
        window=4096,
        depth=26,
        softmax="manual",
        reserved=((7, 105),),
        differs="mlx-lm 0.32 keeps dense caches and builds one causal mask for every layer",
    ),
    "gemma3": Habit(text="gemma3_text"),
    "gemma3_text": Habit(
        pattern="LLLLLG",
        window=4096,
        depth=26,
        reserved=((6, 104), (256001, 262143)),
        differs="mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types",
        differs_if=("layer_types", True),
    ),
    "gemma3n": Habit(text="gemma3n_text"),
    "gemma3n_text": Habit(pattern="LLLLG", window=512, depth=35, shared=15),
    "gemma4": Habit(text="gemma4_text"),
    "gemma4_unified": Habit(text="gemma4_unified_text"),
    "gemma4_unified_text": Habit(pattern="LLLLLG", window=1024, depth=30, last="G"),
    "gemma4_text": Habit(
        pattern="LLLLLG",
        window=512,
        depth=30,
        last="G",
        # Only unused2102 to unused2120 are proven; multimodal ids lie in the same numeric range.
        reserved=((258014, 258032),),
        differs="mlx-lm 0.32 takes a silent config as the E2B model (every 5th layer full, 20 sharing keys)",
        differs_if=("layer_types", False),
    ),
    "diffusion_gemma": Habit(text="diffusion_gemma_text"),
    "diffusion_gemma_text": Habit(pattern="LLLLLG", window=512, depth=30, last="G"),
    "gpt_oss": Habit(pattern="LG", window=128, depth=36, sinks=True),
    "mellum": Habit(window=1024, depth=28),
    "exaone4": Habit(
        pattern="LLLG",
        window=4096,
        depth=32,
        nope=True,
        differs="mlx-lm 0.32 reads sliding_window_pattern as a string and ignores layer_types",
        differs_if=("layer_types", True),
    ),
    "exaone_moe": Habit(pattern="LLLG", window=4096, depth=32, nope=True),
    "ministral3": Habit(
        pattern="L",
        depth=34,
        differs="mlx-lm 0.32 takes every layer as full when layer_types is absent, whatever the window",
        differs_if=("layer_types", False),
    ),
    "mistral3": Habit(text="mistral"),
    # Without layer_types, which published configs have, mlx-lm 0.32 lets every other layer slide.
    "step3p5": Habit(window=512),
    "cohere2": Habit(
        pattern="LLLG",
        window=4096,
        depth=40,
        nope=True,
        differs="mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types",
        differs_if=("layer_types", True),
    ),
    "olmo3": Habit(pattern="LLLG", window=4096, depth=32),
    "recurrent_gemma": Habit(pattern="RRL", window=2048, depth=26),
    "llama4": Habit(text="llama4_text"),
    "llama4_text": Habit(pattern="CCCG", window=8192, depth=48, nope=True),
    "afmoe": Habit(pattern="LLLG", window=1024, depth=32, nope=True),
    "mistral": replace(_EVERY_LAYER, window=4096),
    "ministral": Habit(pattern="L", window=4096),
    "doge": Habit(pattern="L"),
    "moshi": Habit(pattern="L", window=3000),
    "phi4_multimodal": Habit(pattern="L"),
    "mixtral": _EVERY_LAYER,
    "phi3": _EVERY_LAYER,
    "phimoe": _EVERY_LAYER,
    "starcoder2": _EVERY_LAYER,
    "jamba": Habit(pattern="RRRRGRRR", rope=False),
    "nemotron_h": Habit(rope=False),
    # transformers adds one to what config.json says, after SGLang, whose window leaves the query out.
    "mimo_v2_flash": Habit(
        pattern="LLLLLG",
        lead="G",
        window=129,
        before="sliding_window_size",
        differs="mlx-lm 0.32 takes sliding_window_size as counting the query, which transformers adds to it",
        differs_if=("sliding_window_size", True),
    ),
    # Its authors' port (mlx-examples #1283) keeps as many keys before the query, and the query.
    "plamo2": Habit(
        pattern="RL",
        window=2049,
        before="attention_window_size",
        differs="mlx-lm 0.32 keeps dense caches and attends to everything",
    ),
    # Its authors' own code for SGLang, vLLM and llama.cpp count the query in.
    "plamo3": Habit(
        pattern="LLLLLLLG",
        window=2048,
        depth=32,
        differs="mlx-lm 0.32 masks one key more than its caches keep",
    ),
    "muse_glimmer": Habit(pattern="LLLG", window=2048, depth=52),
    "muse_glimmer_text": _BACKWARD,
    "muse_spark_text": _BACKWARD,
    "spark2_5": Habit(pattern="LLLG"),
    "deepseek_v32": Habit(softmax="opaque"),
    "glm_moe_dsa": Habit(softmax="opaque"),
    "deepseek_v41": Habit(depth=40, sinks=True, softmax="opaque"),
    "iquestloopcoder": Habit(softmax="opaque"),
    "beam": Habit(pattern="LLLLLG", window=512, last="G"),
    "cohere2_moe": Habit(pattern="LLLG", window=4096, nope=True),
    "deepseek_v4": Habit(sinks=True),
    "cwm": Habit(pattern="GLLL", window=8192),
    "dory": Habit(pattern="LLLG", window=1024),
    "dots3_note_text": replace(_INDEXED, window=512),
    "flint": replace(_INDEXED, window=513, last="G", nope=True, sinks=True),
    "gpt_neo": Habit(pattern="GL", window=256, softmax="manual"),
    "granite_swa": _GRANITE,
    "granitemoe_swa": _GRANITE,
    "inkling2_loop_text": _INKLING,
    "inkling2_text": _INKLING,
    "inkling_text": replace(_INKLING, window=512, sinks=False),
    "kolibri1": Habit(pattern="LLLLG", window=513, nope=True),
    "lara_mini": Habit(pattern="RLRGL", window=512, nope=True),
    "lfm3": Habit(pattern="LRGR", lead="R", window=256),
    "modernbert-decoder": Habit(pattern="GLL", window=64, ahead=True, twice="local_attention"),
    "vaultgemma": Habit(pattern="LG", window=4096),
    # Linear layers beside attending ones, over which a window is laid where the config has one.
    "minimax": Habit(pattern="LR"),
    "bailing_hybrid": Habit(pattern="RRRRRG"),
    "bailing_moe_v3": _INTERVAL,
    "kimi_linear": Habit(pattern="GRRR", lead="R"),
    "olmo_hybrid": replace(_INTERVAL, one="G"),
    "qwen3_next": _INTERVAL,
    "qwen3_5": Habit(text="qwen3_5_text"),
    "qwen3_5_text": _INTERVAL,
    "qwen3_5_moe": Habit(text="qwen3_5_moe_text"),
    "qwen3_5_moe_text": _INTERVAL,
    "qwen4_exp_text": _INTERVAL,
    "bamba": _RECURRENT,
    "granitemoehybrid": _RECURRENT,
    "mamba": _RECURRENT,
    "mamba2": _RECURRENT,
    "falcon_mamba": _RECURRENT,
    "rwkv7": _RECURRENT,
}
