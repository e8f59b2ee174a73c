"""Pairs for the tests, built once each, and faults to plant in one side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from mlxdiag.models import convert


@cache
def pair(family: str) -> convert.Pair:
    found = convert.tiny(family)
    assert isinstance(found, convert.Pair), found
    return found


@contextmanager
def moved(module: Any, name: str, factor: float) -> Iterator[None]:
    """A weight of an MLX module multiplied by a factor."""
    before = module[name]
    module[name] = before * factor
    try:
        yield
    finally:
        module[name] = before


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of an object set to something else."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
