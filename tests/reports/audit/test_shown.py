"""The words that every format shares: sums that add up, and no "clean" for what was not judged."""

import msgspec
import pytest

from mlxdiag.reports.audit import shown as words
from tests.reports.audit.examples import (
    ABORT,
    ACCEPTED,
    DIFFERENCE,
    WINDOW,
    blind,
    cell,
    clean,
    crashing,
    faulty,
    shown,
)


@pytest.mark.parametrize(
    ("one", "sign"),
    [
        (cell("a", "b"), "."),
        (cell("a", "b", excuse="x"), "e"),
        (cell("a", "b", "fail", oracles=["geometry", "visibility", "parity"]), "gvp"),
        (cell("a", "b", "fail", oracles=["parity"]), "p"),
        (cell("a", "b", "fail"), "f"),
        (cell("a", "b", "crash"), "X"),
        (cell("a", "b", "unsupported"), "u"),
        (cell("a", "b", "skipped"), "-"),
        (None, ""),
    ],
)
def test_every_result_has_its_own_sign_without_colour(one, sign):
    assert words.symbol(one) == sign


def test_families_reached_skipped_and_left_out_add_up_to_those_known():
    text = words.coverage(faulty())
    assert text == "126 families known: 3 reached, 1 skipped, 122 not asked for"
    split = msgspec.structs.replace(faulty(), shard=(2, 5))
    assert words.coverage(split).endswith("122 outside shard 2/5")
    assert words.coverage(clean()) == "1 family known: 1 reached, 0 skipped"


def test_cells_by_result_add_up_to_all():
    assert words.tally(faulty()) == (
        "16 cells: 7 pass (1 of them excused), 2 fail, 1 crash, 1 unsupported, 5 skipped"
    )


def test_nothing_judged_is_not_clean():
    assert "not the same as clean" in words.verdict(shown(blind()))
    assert words.nothing_judged(blind())
    assert not words.nothing_judged(clean())
    assert words.verdict(shown(clean())) == "no fault found"
    assert (
        words.verdict(shown(clean(), hidden=2)) == "nothing to show: 2 faults hidden by --select or --ignore"
    )


def test_beside_a_baseline_the_verdict_counts_what_is_new():
    assert words.verdict(shown()) == "2 faults"
    assert words.verdict(shown(difference=ACCEPTED)) == "2 faults (1 new, 1 accepted)"
    assert words.verdict(shown(difference=DIFFERENCE, hidden=3)) == "2 faults (1 new, 1 changed, 3 hidden)"


def test_a_family_left_without_a_verdict_by_our_own_fault_is_not_called_skipped():
    lost = cell("a", "b", "skipped", reason=f"{words.UNFINISHED}: x")
    audit = msgspec.structs.replace(blind(), cells=[*blind().cells, lost])
    assert list(words.skipped_families(audit)) == ["metal"]


def test_a_fault_is_new_or_accepted_only_beside_a_baseline():
    assert words.state(WINDOW, shown()) == ""
    assert words.state(WINDOW, shown(difference=ACCEPTED)) == "accepted"
    assert words.state(WINDOW, shown(difference=DIFFERENCE)) == "changed"
    assert words.state(ABORT, shown(difference=DIFFERENCE)) == "new"


def test_the_next_command_runs_the_script_or_makes_one():
    assert words.following(ABORT, shown(repros="out")) == "python out/md902-old-1a2b3c.py"
    assert words.following(WINDOW, shown()) == (
        "mlxdiag audit-models gemma2 --scenario chunks-below-window --repros repros"
    )


def test_many_names_are_counted_and_none_is_lost():
    names = [f"f{number}" for number in range(30)]
    assert words.few(names).endswith("f11 and 18 more")
    assert words.few(names[:13]) == ", ".join(names[:13])


def test_logits_that_agree_are_not_called_a_difference():
    told = dict(words.details(msgspec.structs.replace(WINDOW, max_abs=0.0), shown()))
    assert told["numbers"].endswith("logits agree with the library's own single pass (tolerance 0.001)")


THROWN = "step 3: AttributeError: 'list' object has no attribute 'shape'"


def test_a_crash_whose_cause_is_known_shows_its_exception_too():
    told = dict(words.details(*crashing(THROWN)))
    assert told["cause"] == "The layer asks a list for its shape."
    assert told["seen"] == THROWN


def test_a_crash_whose_cause_is_not_known_shows_its_exception_once():
    told = list(words.details(*crashing(THROWN, known=False, cause=THROWN)))
    assert [value for _, value in told].count(THROWN) == 1
    assert told[0] == ("seen", THROWN)


def test_a_fault_that_crashes_in_some_cells_only_says_in_how_many():
    assert dict(words.details(*crashing(THROWN, "a key is lost")))["seen"] == f"{THROWN} (in 1 of 2 cells)"
    mixed = crashing(THROWN, "a key is lost", known=False, cause="a key is lost")
    assert dict(words.details(*mixed))["seen"] == f"a key is lost; elsewhere {THROWN} (in 1 of 2 cells)"


def test_an_exception_is_one_bounded_line():
    said = dict(words.details(*crashing(f"step 1: ValueError: {'x' * 400}\nsecond line")))["seen"]
    assert said.startswith("step 1: ValueError: xxx")
    assert said.endswith("...")
    assert len(said) == words.MOST_SEEN
    assert dict(words.details(*crashing("step 1: E: a\nsecond")))["seen"] == "step 1: E: a"


def test_a_fault_without_a_crash_shows_no_exception():
    assert "seen" not in dict(words.details(WINDOW, shown()))
