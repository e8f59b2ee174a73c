"""Options and the variables that stand for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxdiag.record.options import STARTUP, Options, from_environment


@pytest.mark.parametrize(
    "options",
    [Options(Path("/a/t.yaml")), Options(Path("/a/t.yaml"), "digest", 20, True)],
)
def test_options_survive_the_environment(options: Options) -> None:
    assert from_environment(options.environment()) == options


def test_without_a_name_nothing_is_recorded() -> None:
    assert from_environment({}) is None
    assert from_environment({"MLXDIAG_RECORD": "", "MLXDIAG_LEVEL": "shapes"}) is None


@pytest.mark.parametrize(
    ("name", "value"), [("MLXDIAG_LEVEL", "everything"), ("MLXDIAG_RING", "-1"), ("MLXDIAG_RING", "many")]
)
def test_a_value_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}={value}"):
        from_environment({"MLXDIAG_RECORD": "t.yaml", name: value})


def test_the_start_up_folder_holds_what_python_looks_for() -> None:
    assert [path.name for path in STARTUP.glob("*.py")] == ["sitecustomize.py"]
