"""The search on real model code: gemma2's window of 8 is crossed by a ninth token, and by nothing less."""

import msgspec
import pytest

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.faults.smallest import sight, smallest
from mlxdiag.audit.judge.judge import audit_family
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.traces.reader import parse


@pytest.fixture(scope="module")
def wrong():
    """A failing cell of gemma2, whose sliding layers see everything."""
    (cell,) = audit_family("gemma2", [named("chunks-not-dividing")])
    return cell


@pytest.fixture(scope="module")
def found(wrong):
    (cell,) = smallest(msgspec.to_builtins(wrong), 0)
    return cell


def test_one_token_past_the_window_is_left(found):
    rows = [row for entry in parse(found.trace).entries for row in entry.rows or []]
    assert sum(row.tokens for row in rows) == 9
    assert len({row.seq for row in rows}) == 1


def test_it_shows_the_same(wrong, found):
    assert sight(found) == sight(wrong)
    assert found.family == "gemma2"
    assert found.evidence["positions"] == [8]


def test_a_cell_that_does_not_fail_here_has_none(wrong):
    other = msgspec.structs.replace(wrong, family="gemma3_text")
    assert list(smallest(msgspec.to_builtins(other), 0)) == []


def test_a_dead_workers_cell_is_given_its_schedule_and_not_run(wrong):
    dead = msgspec.structs.replace(wrong, trace="", result="crash", codes=["MD902"])
    (cell,) = smallest(msgspec.to_builtins(dead), 0)
    assert cell.trace == wrong.trace
    assert cell.result == "crash"


def test_logits_that_were_wrong_stay_wrong():
    (cell,) = audit_family("afm7", [named("left-padding")])
    assert "parity" in cell.oracles
    (less,) = smallest(msgspec.to_builtins(cell), 0)
    assert "parity" in less.oracles
    assert less.evidence["max_abs"] > less.evidence["tolerance"]


def test_what_is_adopted_was_stored_in_the_smallest_schedule_too():
    (cell,) = audit_family("plamo3", [named("drafts-stored")])
    assert "MD205" in cell.codes
    (less,) = smallest(msgspec.to_builtins(cell), 0)
    fed, adopted = 0, []
    for entry in parse(less.trace).entries:
        for row in entry.rows or []:
            if row.matched:
                adopted.append(row.matched)
            elif not adopted:
                fed += row.tokens or 0
    assert adopted
    assert adopted[0] <= fed + 1, "all that was emitted: one token more than was fed"


def test_crashes_of_the_same_words_and_other_numbers_look_the_same():
    def crash(said):
        return Cell(
            library="mlx-lm",
            family="a",
            scenario="one",
            result="crash",
            codes=["MD901"],
            oracles=["geometry"],
            reason=f"step 3: ValueError: {said}",
        )

    assert sight(crash("shapes (5,5) and (12,)")) == sight(crash("shapes (8,16) and (15,)"))
    assert sight(crash("shapes (5,5) and (12,)")) != sight(crash("cannot reshape"))
