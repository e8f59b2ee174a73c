"""What is known of families in transformers alone. Data; every entry says why it is there."""

from __future__ import annotations

from typing import Any

import msgspec


class Special(msgspec.Struct, frozen=True, kw_only=True):
    """Classes of a language model that the library's table of causal language models does not list."""

    module: str
    config: str
    model: str
    wrapper: str | None = None
    """The config class that `model` takes, where it is not the text config itself."""
    outer: dict[str, Any] = {}
    """Fields of the wrapper that make its other parts tiny."""


CLASSES: dict[str, Special] = {
    # Registered as a text config only; the class with a head takes the whole multimodal config.
    "step3p5": Special(
        module="step3p7",
        config="Step3p7TextConfig",
        model="Step3p7ForConditionalGeneration",
        wrapper="Step3p7Config",
        outer={
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
            }
        },
    ),
    # It has a head of its own, and stands in the table of models that take images only.
    "mistral4": Special(module="mistral4", config="Mistral4Config", model="Mistral4ForCausalLM"),
    # The causal half of a diffusion model: its encoder, which returns hidden states.
    "diffusion_gemma_text": Special(
        module="diffusion_gemma", config="DiffusionGemmaTextConfig", model="DiffusionGemmaEncoderTextModel"
    ),
}

_BARE = {
    "muse_glimmer_text": ("muse_glimmer", "MuseGlimmerText"),
    "muse_spark_text": ("muse_spark", "MuseSparkText"),
    "qwen2_5_vl_text": ("qwen2_5_vl", "Qwen2_5_VLText"),
    "qwen2_vl_text": ("qwen2_vl", "Qwen2VLText"),
}
"""Text models of larger ones, whose heads take images or sound as well; they return hidden states."""
CLASSES |= {
    name: Special(module=module, config=f"{stem}Config", model=f"{stem}Model")
    for name, (module, stem) in _BARE.items()
}

ALIAS = {
    "diffusion_gemma": "diffusion_gemma_text",
    "step3p7": "step3p5",
}
"""Names that people use for a family, and the model type of its text config."""

CACHES = {"minimax": ("minimax", "MiniMaxCache")}
"""Model types that refuse the library's dynamic cache: (module, class) of the one that their model makes."""

EXPERTS = "eager"
"""How experts run: the grouped kernels refuse float64 and differ per device."""


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """What a config means where no field of it says so."""

    sinks: tuple[str, ...] = ()
    """Attention kinds of layers whose softmax has a learned sink term."""
    softmax: str = "fused"
    nope: tuple[str, ...] = ()
    """Attention kinds of layers without positional encoding."""
    windowed: bool = False
    """Layers that are listed as full slide where the config has a window."""


_ALL = ("full", "sliding")

MEANING: dict[str, Meaning] = {
    "cohere2_moe": Meaning(nope=("full",)),
    "deepseek_v4": Meaning(sinks=_ALL),
    "flint": Meaning(sinks=_ALL, nope=("full",)),
    "gpt_oss": Meaning(sinks=_ALL),
    "granite_swa": Meaning(sinks=_ALL),
    "granitemoe_swa": Meaning(sinks=_ALL),
    "inkling2_loop_text": Meaning(sinks=_ALL),
    "inkling2_text": Meaning(sinks=_ALL),
    # The config class knows no field for what published configs say.
    "mimo_v2_flash": Meaning(sinks=("sliding",)),
    "kolibri1": Meaning(nope=("full",)),
    "lara_mini": Meaning(nope=("full",)),
    # Attention is computed in the model's own code.
    "gpt_neo": Meaning(softmax="manual"),
    # The window is laid over every attending layer, and the kinds say nothing of it.
    "minimax": Meaning(windowed=True),
}
