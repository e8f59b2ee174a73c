"""Which families the library has, which of them the zoo reaches, and why not the others."""

from __future__ import annotations

from functools import cache

import msgspec

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library
from mlxdiag.models.torch.families import CLASSES
from mlxdiag.models.torch.zoo.rows import row, zoo

LOCAL = (
    "sliding_window",
    "attention_chunk_size",
    "attention_window_size",
    "sliding_window_size",
    "local_attention",
    "window_size",
)
"""Fields by which a config class says that its layers can attend locally, switched on or not."""


class Inventory(msgspec.Struct, frozen=True):
    """Model types that hold a causal language model, each exactly once."""

    reached: tuple[str, ...]
    """Types of which the zoo has an instance."""
    broken: dict[str, Skipped]
    """Types that the library maps and cannot import here."""
    others: dict[str, str]
    """The rest, with the reason."""


@cache
def inventory() -> Inventory:
    """Every causal language model of the library, sorted by what the zoo does with it. A library that is
    missing has none."""
    if isinstance(library.load(), Skipped):
        return Inventory((), {}, {})
    reached, broken, others = [], {}, {}
    for model_type in sorted({*library.causal_types(), *CLASSES}):
        classes = library.family(model_type)
        if isinstance(classes, Skipped):
            broken[model_type] = classes
        elif (why := _why_not(model_type, classes)) is not None:
            others[model_type] = why
        else:
            reached.append(model_type)
    return Inventory(tuple(reached), broken, others)


def families() -> tuple[str, ...]:
    """The rows of an audit: every reached type, and the variants of the data file."""
    reached = set(inventory().reached)
    return tuple(sorted(reached | {name for name in zoo().rows if row(name).model_type in reached}))


def _why_not(model_type: str, classes: library.Classes) -> str | None:
    if model_type in zoo().apart:
        return zoo().apart[model_type]
    inner = (getattr(classes.config, "sub_configs", None) or {}).get("text_config")
    if inner is not None and classes.wrapper is None:
        return f"wraps {getattr(inner, 'model_type', 'another text model')}"
    if model_type in zoo().plain or set(library.defaults(classes)) & set(LOCAL):
        return None
    return "no local attention"
