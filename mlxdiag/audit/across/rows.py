"""The rows of the comparison: every family of either library, once, and why some cannot be compared."""

from __future__ import annotations

import msgspec

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
        module = _module(row(name).model_type or model_type)
        why = held.others.get(model_type, "")
        if why.startswith("wraps "):
            taken.add(module)
            if module in modules:
                apart[name] = "", f"{why}, which is compared as the text model that it is"
        elif module in modules:
            taken.add(module)
            both.add(name)
        elif name in torch_zoo.families():
            apart[name] = MLX, f"mlx-lm has no family {model_type}"
    # A module of the name of a family that is published as a part of another one, as llama4_text, is no row.
    for module in sorted(modules - taken - both):
        apart[module] = TORCH, f"transformers has no language model of the type {module}"
    return Families(both=tuple(sorted(both)), apart=apart)


def _module(model_type: str) -> str:
    from mlx_lm.utils import MODEL_REMAPPING

    return str(MODEL_REMAPPING.get(model_type, model_type))
