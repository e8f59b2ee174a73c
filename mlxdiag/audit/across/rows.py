"""The rows of the comparison: every family of either library, once, and why some cannot be compared."""

from __future__ import annotations

import importlib
from collections.abc import Collection

import msgspec

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.convert.pair import MLX, TORCH
from mlxdiag.models.convert.rows import row, table


class Families(msgspec.Struct, frozen=True, kw_only=True):
    """Names, sorted. Both libraries must be loaded."""

    both: tuple[str, ...]
    """What both know: a pair may be built."""
    apart: dict[str, tuple[str, str]]
    """The rest: the library that lacks it ("" for a wrapper), and why it is not compared."""

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted({*self.both, *self.apart}))


def families() -> Families:
    """Every language model that either library holds."""
    from mlxdiag.models.mlx import library as mlx_library
    from mlxdiag.models.mlx import zoo as mlx_zoo
    from mlxdiag.models.torch import library as torch_library
    from mlxdiag.models.torch import zoo as torch_zoo
    from mlxdiag.models.torch.families import CLASSES
    from mlxdiag.models.torch.zoo.rows import row as torch_row

    held = torch_zoo.inventory()
    modules = set(mlx_zoo.modules())
    known = {*torch_library.causal_types(), *CLASSES, *torch_zoo.families()}
    both, apart, taken = set(), {}, set()
    for name in sorted(known | {one for one in table() if row(one).of or one in known}):
        model_type = torch_row(row(name).of or name).model_type
        entry = row(name)
        module = mlx_library.module_name(entry.model_type or model_type, entry.architectures)
        why = held.others.get(model_type, "")
        if why.startswith("wraps "):
            taken.add(module)
            if module in modules:
                apart[name] = "", f"{why}, which is compared as the text model that it is"
        elif module in modules:
            taken.add(module)
            both.add(name)
        elif name in torch_zoo.families():
            whole = mlx_library.module_name(model_type.removesuffix("_text"))
            if whole in modules and not _has_head(model_type):
                taken.add(whole)
                apart[name] = "", f"published as a part of {whole}; transformers has it without a head there"
            else:
                apart[name] = MLX, f"mlx-lm has no family {model_type}"
    # A module of the name of a family that is published as a part of another one, as llama4_text, is no row.
    for module in sorted(modules - taken - both):
        inner = " or ".join(_wrapped(module, taken))
        if inner and _has_config(module):
            apart[module] = "", f"wraps {inner}, which is compared as the text model that it is"
        else:
            apart[module] = TORCH, f"transformers has no language model of the type {module}"
    return Families(both=tuple(sorted(both)), apart=apart)


def _has_head(model_type: str) -> bool:
    """Whether transformers' class of a family returns logits."""
    from mlxdiag.models.torch import library

    found = library.family(model_type)
    return not isinstance(found, Skipped) and found.has_head


def _has_config(module: str) -> bool:
    """Whether transformers knows this type, be it as a model of images."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return module in CONFIG_MAPPING or module.replace("-", "_") in CONFIG_MAPPING


def _wrapped(module: str, families: Collection[str]) -> list[str]:
    """The families whose modules, or whose classes, a module of mlx-lm runs."""
    found = importlib.import_module(f"mlx_lm.models.{module}")
    names = {
        getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in vars(found).values()
    }
    return sorted({str(name).rpartition(".")[2] for name in names} & set(families) - {module})
