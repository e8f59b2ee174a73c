"""What is written down of differences, and how cells are grouped by it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from mlxdiag.audit.across.causes import Cause, Causes, group, load
from mlxdiag.audit.across.cell import Cell, Kind
from mlxdiag.audit.faults.causes import Locator, Where
from mlxdiag.traces.types import PARTINGS

WINDOW = Cause(
    name="window-not-read",
    families=["mistral", "qwen*"],
    kinds=["visibility"],
    library="mlx-lm",
    text="It is not read.",
    where=[
        Where(file="mlx_lm/models/llama.py", snippet="one"),
        Where(file="mlx_lm/models/qwen2.py", snippet="two"),
    ],
)


@pytest.fixture
def locators(tmp_path: Path) -> dict[str, Locator]:
    folder = tmp_path / "mlx_lm" / "models"
    folder.mkdir(parents=True)
    (folder / "llama.py").write_text("zero\none\n")
    (folder / "qwen2.py").write_text("two\n")
    return {"mlx_lm": Locator(tmp_path)}


def cell(family: str, kind: Kind | None = "visibility", library: str = "mlx-lm", **more: object) -> Cell:
    told = {"scenario": "no-cache", "result": "differ", "largest": 1.0, "reason": "seen so"} | more
    return Cell(family=family, kind=kind, library=library, **told)  # type: ignore[arg-type]


def test_cells_of_one_cause_are_one_difference(locators: dict[str, Locator]) -> None:
    cells = [cell("mistral"), cell("qwen2", largest=3.0), cell("qwen2", scenario="left-padding")]
    named, (one,), notes = group(cells, Causes([WINDOW]), locators)
    assert (one.id, one.families, len(one.cells), one.largest) == (
        "window-not-read",
        ["mistral", "qwen2"],
        3,
        3.0,
    )
    assert one.where == "mlx_lm/models/llama.py:2, mlx_lm/models/qwen2.py:1"
    assert [found.where for found in named[:2]] == ["mlx_lm/models/llama.py:2", "mlx_lm/models/qwen2.py:1"]
    assert (one.known, one.cause, notes) == (True, "It is not read.", [])


def test_what_nobody_has_read_up_is_a_difference_of_its_own(locators: dict[str, Locator]) -> None:
    cells = [cell("phi3"), cell("mistral", "positions"), cell("mistral", library="transformers")]
    _, found, _ = group(cells, Causes([WINDOW]), locators)
    assert [(one.id, one.known) for one in found] == [
        ("mistral-positions-mlx-lm", False),
        ("mistral-visibility-transformers", False),
        ("phi3-visibility-mlx-lm", False),
    ]
    assert found[0].cause == "seen so"


def test_a_library_that_was_not_told_is_told_by_the_cause(locators: dict[str, Locator]) -> None:
    (named,), (one,), _ = group([cell("mistral", library="")], Causes([WINDOW]), locators)
    assert (named.library, one.library) == ("mlx-lm", "mlx-lm")


def test_a_cell_with_two_differences_is_in_both(locators: dict[str, Locator]) -> None:
    (named,), found, _ = group(
        [cell("qwen2", "experts", also="visibility", also_library="mlx-lm")], Causes([WINDOW]), locators
    )
    assert named.causes == ["qwen2-experts-mlx-lm", "window-not-read"]
    assert {one.id: (one.kind, one.cells) for one in found} == {
        "qwen2-experts-mlx-lm": ("experts", [("qwen2", "no-cache")]),
        "window-not-read": ("visibility", [("qwen2", "no-cache")]),
    }


def test_who_sees_other_keys_is_not_blamed_for_another_difference(locators: dict[str, Locator]) -> None:
    two = cell("qwen2", "positions", library="", also="visibility", also_library="mlx-lm")
    (named,), found, _ = group([two], Causes([WINDOW]), locators)
    assert {one.id: one.library for one in found} == {
        "qwen2-positions-unread": "",
        "window-not-read": "mlx-lm",
    }
    assert (named.library, named.where) == ("", "")
    (_,), found, _ = group([two], Causes(), locators)
    assert [one.id for one in found] == ["qwen2-positions-unread", "qwen2-visibility-mlx-lm"]


def test_cells_that_do_not_differ_are_left_alone(locators: dict[str, Locator]) -> None:
    agreeing = Cell(family="mistral", scenario="no-cache", result="agree")
    assert group([agreeing], Causes([WINDOW]), locators) == ([agreeing], [], [])


def test_a_line_that_is_gone_is_reported(locators: dict[str, Locator]) -> None:
    gone = Cause(
        name="gone",
        families=["x"],
        kinds=["norm"],
        library="mlx-lm",
        text="t",
        where=[Where(file="mlx_lm/models/llama.py", snippet="three")],
    )
    _, _, notes = group([], Causes([gone]), locators)
    assert notes == ["stale cause gone: mlx_lm/models/llama.py does not hold 'three'"]


def test_every_line_of_the_shipped_file_is_in_the_installed_libraries() -> None:
    roots = {}
    for package in ("mlx_lm", "transformers"):
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        roots[package] = Locator(Path(spec.origin).parents[1])
    shipped = load()
    assert group([], shipped, roots)[2] == []
    names = [cause.name for cause in shipped.causes]
    assert len(names) == len(set(names)) > 8


def test_kinds_are_the_words_of_the_trace() -> None:
    assert get_args(Kind) == PARTINGS
