"""The text of a standalone script. That it runs, an audit with --repros shows."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from mlxdiag.audit import repro
from mlxdiag.audit.cell import Fault
from mlxdiag.audit.distributed.schedules import SCHEDULES
from mlxdiag.audit.distributed.told import PIPELINE
from mlxdiag.audit.distributed.torchrun.script import compose
from mlxdiag.errors import UnjudgedError


def fault(family: str) -> Fault:
    return Fault(
        id="split",
        code="MD402",
        library="transformers",
        families=[family],
        cause="Heads are mixed up.",
        where="transformers/distributed/tensor_parallel.py:1",
    )


def test_a_script_needs_torch_and_transformers_alone_and_runs_the_same_schedules() -> None:
    text = compose(fault("doge"))
    tree = ast.parse(text)
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {"torch", "transformers"} <= set(names)
    assert "mlxdiag" not in text
    values = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert ast.literal_eval(values["SCHEDULES"]) == SCHEDULES
    assert ast.literal_eval(values["RANKS"]) == 2
    said = ast.get_docstring(tree)
    assert said is not None
    assert "Heads are mixed up." in said
    assert "Where: transformers/distributed/tensor_parallel.py:1" in said


def test_no_script_is_written_for_a_family_that_is_not_there() -> None:
    with pytest.raises(UnjudgedError, match="no_such_family"):
        compose(fault("no_such_family"))


def test_a_fault_that_shows_only_in_split_models_gets_such_a_script(tmp_path: Path) -> None:
    found = msgspec.structs.replace(fault("doge"), cells=[("doge", PIPELINE)])
    path = repro.write(found, tmp_path)
    assert path is not None
    assert "HOW = {'pp_size': 2}" in path.read_text()
    assert repro.write(msgspec.structs.replace(found, cells=[("doge", "no-cache")]), tmp_path) is None
