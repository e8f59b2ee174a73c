"""Counts that sum up, and what is said of nothing."""

import re

import msgspec
import pytest

from mlxdiag.audit.across.cell import Cell, Row
from mlxdiag.reports.across import words
from tests.reports.across.made import across


def numbers(line: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", line)]


@pytest.mark.parametrize("line", [words.families_line, words.cells_line])
def test_counts_sum_up_to_the_whole(line) -> None:
    whole, *parts = numbers(line(across()))
    assert whole == 4 == sum(parts)


def test_the_verdict_counts_families_that_could_be_compared() -> None:
    assert words.verdict(across()) == "1 difference in 1 of 2 families that could be compared"
    assert words.verdict(across(differences=[])) == "no difference in 2 families"


def test_a_comparison_of_nothing_is_no_agreement() -> None:
    empty = across(
        cells=[Cell(family="x", scenario="no-cache", result="refused", reason="no")], differences=[]
    )
    assert words.nothing_compared(empty)
    assert words.verdict(empty) == "nothing was compared"
    assert words.noise_line(empty) == ""
    assert not words.nothing_compared(across())


def test_our_own_failures_are_no_verdict() -> None:
    assert not words.unjudged(across())
    assert words.unjudged(across(rows=[Row(family="x", result="unjudged")]))
    failed = Cell(family="x", scenario="y", result="skipped", reason="not judged: mlxdiag failed on it: z")
    assert words.unjudged(across(cells=[failed]))


def test_tolerances_and_floors_are_told() -> None:
    assert words.noise_line(across()) == (
        "where they agree, 19 positions lie within 8.0e-06 of the logits' spread (llama); noise floors "
        "3.0e-06 to 4.0e-06, tolerances 2.0e-04 to 2.0e-04"
    )


def test_every_family_and_cell_without_a_verdict_has_a_reason() -> None:
    found = {where: (result, reason) for result, reason, names in words.reasons(across()) for where in names}
    assert found == {
        "beam": ("lacks", "mlx-lm has no such language model"),
        "dbrx": ("refused", "transformers: cannot be built"),
        "mistral/as-saved": ("refused", "mlx-lm: not so"),
    }


def test_keys_are_counted_though_a_cell_holds_the_last_of_them_alone() -> None:
    made = across()
    cell = next(one for one in made.cells if one.causes)
    cell.evidence |= {"meant": list(range(5, 21)), "due": 21, "keys": {"transformers": 21, "mlx-lm": 8}}
    told = dict(words.details(made.differences[0], [cell]))
    assert told["visible"].endswith("the config means 21 keys, 0 to 20; keys seen: transformers 21, mlx-lm 8")


def test_the_keys_of_another_difference_are_not_told_of_this_one() -> None:
    made = across()
    cell = next(one for one in made.cells if one.causes)
    turned = msgspec.structs.replace(made.differences[0], kind="positions")
    assert "visible" not in dict(words.details(turned, [cell]))


def test_a_family_whose_cells_say_why_is_told_by_them_alone() -> None:
    rows = [Row(family="x", result="refused", library="mlx-lm", reason="its checkpoint is refused")]
    cells = [Cell(family="x", scenario="no-cache", result="refused", library="mlx-lm", reason="not so")]
    assert list(words.reasons(across(rows=rows, cells=cells))) == [
        ("refused", "mlx-lm: not so", ["x/no-cache"])
    ]
