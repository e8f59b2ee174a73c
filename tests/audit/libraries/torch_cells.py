"""Cells of transformers made in this process, each family built once."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("transformers")
import torch

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.judge import noise
from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.judge.passes import Passes
from mlxdiag.audit.libraries import table
from mlxdiag.audit.schedules.scenarios import named

torch.set_num_threads(1)


@cache
def family(name: str):
    """The instance, its single passes, and its noise floor."""
    instance = table.named("transformers").tiny(name, 0)
    return instance, Passes(instance), noise.floor(instance)


def cell(name: str, scenario: str) -> Cell:
    """The cell on the library as it is; passes are shared, and made before anything is broken."""
    instance, passes, floor = family(name)
    return judge(instance, named(scenario), noise=floor, passes=passes)


def line(where: str) -> str:
    """The text of a place in the installed library."""
    import transformers

    file, _, number = where.rpartition(":")
    root = transformers.__file__.rpartition("/transformers/")[0]
    with open(f"{root}/{file}", encoding="utf-8") as source:
        return source.read().splitlines()[int(number) - 1]
