"""How a script for transformers comes by its model."""

from __future__ import annotations

from pprint import pformat
from typing import Any

from mlxdiag.audit.repro.subject import WIDTH, drawn
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.draws import DRAWS, Draw


class Model:
    """What a script imports, the values of the config, and the expression that makes it of them."""

    def __init__(self, instance: Any) -> None:
        """Raises UnjudgedError for a family that is not there."""
        from mlxdiag.models.torch import library
        from mlxdiag.models.torch.zoo.build import tiny_config
        from mlxdiag.models.torch.zoo.rows import row

        family = instance.name.partition(":")[0]
        recorded = bool(instance.source_layers)
        text = instance.model.config.get_text_config(decoder=True) if recorded else None
        classes = library.family(row(family).model_type if text is None else text.model_type)
        if isinstance(classes, Skipped):
            raise UnjudgedError(f"{family}: {classes}")
        own = library.defaults(classes)
        self.config = tiny_config(family, classes) if text is None else _recorded(text, own)
        self.outer = classes.outer
        wrapper = classes.wrapper
        config = wrapper or classes.config
        self.imports = [
            f"from {classes.model.__module__} import {classes.model.__name__} as Model",
            f"from {config.__module__} import {config.__name__} as Config",
        ]
        inside = "copy.deepcopy(CONFIG)"
        self.expression = (
            f"Config(**{inside})" if wrapper is None else f"Config(text_config={inside}, **OUTER)"
        )

    def lines(self) -> list[str]:
        """The values, as constants of the script."""
        outer = [f"OUTER = {_shown(self.outer)}"] if self.outer else []
        return [*outer, f"CONFIG = {_shown(self.config)}"]


OWN = ("model_type", "transformers_version", "dtype", "architectures")
"""Fields of every config that a config class knows by itself."""


def _recorded(text: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """The text config of a model that was cut down to what a trace says of one: what is not the default."""
    told: dict[str, Any] = text.to_diff_dict()
    return {
        name: value
        for name, value in told.items()
        if name not in OWN and not name.startswith("_") and (name not in defaults or value != defaults[name])
    }


def weights(instance: Any, seed: int) -> list[str]:
    """Constants that say which attention runs, and how the weights are drawn."""
    names = (name for name, _ in instance.model.named_parameters())
    first, *rest = drawn(instance, seed, names)
    one_more = DRAWS.get(instance.geometry.architecture, Draw()).one_more
    return [
        first,
        f"ATTENTION = {instance.attention!r}",
        *rest,
        f"ONE_MORE = {one_more}  # norms multiply by 1 + weight",
    ]


def head_lines(instance: Any) -> str:
    """For a model that makes no logits: directions in which its hidden states are looked at."""
    if instance.head is None:
        return ""
    return (
        "    rows, width = model.get_input_embeddings().weight.shape\n"
        "    HEAD = torch.randn((rows, width), generator=torch.Generator().manual_seed(SEED + 1))\n"
        "    HEAD = HEAD * width**-0.5  # it makes no logits: hidden states are looked at from here\n"
    )


def _shown(value: Any) -> str:
    return pformat(value, width=WIDTH - 10, compact=True)
