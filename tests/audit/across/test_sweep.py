"""Who works on what, and what a dead worker means: real processes, and no library in them."""

from __future__ import annotations

import pytest

from mlxdiag.audit.across import sweep, tasks
from mlxdiag.audit.across.causes import Causes
from mlxdiag.audit.across.cell import Across
from mlxdiag.errors import UsageError
from tests.audit.across.standin import HERE

SCENARIOS = ("first", "second", "third")


@pytest.fixture
def run(monkeypatch):
    for name in ("PRELOAD", "DESCRIBE", "COMPARE"):
        monkeypatch.setattr(tasks, name, f"{HERE}:{name.lower()}")

    def go(*families: str, **more: object) -> Across:
        wanted = {"families": families, "scenarios": SCENARIOS, "jobs": 2, "limit": 2.0} | more
        return sweep.run(sweep.Wanted(**wanted), causes=Causes())  # type: ignore[arg-type]

    return go


def results(across: Across, family: str) -> list[str]:
    return [cell.result for cell in across.cells if cell.family == family]


def test_every_family_has_one_row_and_the_counts_sum_up(run) -> None:
    across = run()
    assert {row.family: row.result for row in across.rows} == {
        "dies": "agree",
        "exits": "agree",
        "good": "differ",
        "lonely": "lacks",
        "ours": "unjudged",
        "raises": "agree",
        "refuses": "refused",
        "slow": "agree",
        "unbuilt": "crash",
        "wrapper": "apart",
    }
    assert sum(across.families().values()) == 10
    assert sum(across.tally().values()) == len(across.cells) == 15
    assert [cell.scenario for cell in across.cells[:3]] == list(SCENARIOS)


def test_a_worker_that_dies_loses_one_cell_and_the_rest_goes_on(run) -> None:
    across = run("dies")
    assert results(across, "dies") == ["agree", "crash", "agree"]
    assert "SIGSEGV" in across.cells[1].reason
    assert across.rows[0].noise == {"mlx-lm": 1e-6}


def test_a_worker_that_is_ended_inside_a_call_is_a_crash(run) -> None:
    across = run("exits")
    assert results(across, "exits") == ["agree", "crash", "agree"]
    assert across.cells[1].reason == "the process ended with exit code 7"


def test_a_family_that_no_worker_can_build_has_a_row_and_no_cells(run) -> None:
    across = run("unbuilt,ours")
    assert across.cells == []
    assert {row.family: (row.result, row.reason) for row in across.rows} == {
        "ours": (
            "unjudged",
            "building the model: not judged: mlxdiag failed on it: RuntimeError: our own fault",
        ),
        "unbuilt": ("crash", "building the model: the process died of SIGSEGV"),
    }


def test_a_worker_that_is_too_slow_is_killed(run) -> None:
    across = run("slow")
    assert results(across, "slow") == ["agree", "crash", "agree"]
    assert across.cells[1].reason == "no answer within 2 s, so the process was killed"


def test_our_own_exception_is_no_verdict_on_a_library(run) -> None:
    across = run("raises")
    assert results(across, "raises") == ["agree", "skipped", "agree"]
    assert across.cells[1].reason == "not judged: mlxdiag failed on it: RuntimeError: our own fault"


def test_a_difference_nobody_has_read_up_is_told(run) -> None:
    (one,) = run("good").differences
    assert (one.id, one.known, one.cells) == ("good-visibility-unread", False, [("good", "third")])


def test_the_number_of_jobs_changes_nothing(run) -> None:
    one, two = (run("good,dies,raises", jobs=jobs) for jobs in (1, 2))
    assert (one.rows, one.cells) == (two.rows, two.cells)


def test_a_family_that_neither_library_has_is_a_mistake(run) -> None:
    with pytest.raises(UsageError, match="no family 'nobody'"):
        run("nobody")


def test_scenarios_are_those_of_both_tables_and_the_saved_form() -> None:
    names = sweep.scenarios()
    assert names[-1] == "as-saved"
    assert "chunks-not-dividing" in names
    assert not {"key-cap", "static-trim", "tensor-parallel"} & set(names)
