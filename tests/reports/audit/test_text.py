import msgspec
import pytest

from mlxdiag.audit.engine.death import UNFINISHED
from mlxdiag.audit.faults.baseline import Difference
from mlxdiag.reports.audit import text
from tests.reports.audit.examples import (
    ABORT,
    ACCEPTED,
    COMPARISON,
    DIFFERENCE,
    SCENARIOS,
    WINDOW,
    blind,
    cell,
    clean,
    faulty,
    hostile,
    shown,
)


def test_the_table_shows_rows_with_wrong_cells_and_names_the_rest():
    out = text.render(shown())
    lines = (line.split() for line in out.splitlines() if line.startswith(("gemma2 ", "old ")))
    rows = {line[0]: line[1:] for line in lines}
    assert rows == {"gemma2": [".", "gv", "p", "u"], "old": [".", ".", ".", "X"]}
    assert "1 row without a wrong cell (--all shows them): llama" in out
    assert "\nllama" not in out


def test_unfolded_every_row_is_shown():
    out = text.render(shown(unfold=True))
    rows = [line for line in out.splitlines() if line.split()[:1] in (["llama"], ["metal"])]
    assert [row.split()[1:] for row in rows] == [[".", ".", "e", "-"], ["-"] * 4]
    assert "--all" not in out


def test_every_column_is_named_in_the_key():
    out = text.render(shown())
    for number, name in enumerate(SCENARIOS, 1):
        assert f"  {number}  {name}" in out


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_table_wider_than_the_terminal_is_split_and_loses_no_cell(width):
    out = text.render(shown(width=width))
    table = out.split("\n\n")[1:]
    signs = [line.split()[1:] for part in table for line in part.splitlines() if line.startswith("gemma2 ")]
    assert [sign for part in signs for sign in part] == [".", "gv", "p", "u"]


def test_a_fault_is_told_with_all_that_is_known_and_the_next_command_last():
    out = text.render(shown(repros="out"))
    paragraph = next(part for part in out.split("\n\n") if part.startswith("fault gemma2-window"))
    assert paragraph.splitlines() == [
        "fault gemma2-window  MD108 window-not-enforced  2 cells",
        "  cause: One causal mask serves the sliding layers too.",
        "  where: mlx_lm/models/gemma2.py:176",
        "  families: gemma2",
        "  scenarios: chunks-below-window, key-cap",
        "  smallest: prefill 9 (window 8)",
        "  numbers: wrong positions 8, first wrong position 8, "
        "largest logit difference 1.5 (tolerance 0.001)",
        "  rests on: geometry, visibility",
        "  next: mlxdiag audit-models gemma2 --scenario chunks-below-window --repros repros",
    ]
    assert "  next: python out/md902-old-1a2b3c.py" in out


def test_a_cause_that_nobody_read_up_is_not_called_one():
    out = text.render(shown())
    paragraph = next(part for part in out.split("\n\n") if part.startswith("fault md902"))
    assert "cause:" not in paragraph
    assert "seen: the process died of SIGABRT: bad gather" in paragraph


def test_what_was_excused_skipped_and_noted_is_told_with_its_reason():
    out = text.render(shown())
    assert "excused sinks  1 cell\n  why: Sinks are kept by design.\n  families: llama" in out
    assert "skipped families\n  metal: runs on Metal only" in out
    assert "126 families known: 3 reached, 1 skipped, 122 not asked for." in out
    assert "note: stale cause gone" in out


def test_cells_that_our_own_fault_left_without_a_verdict_are_named():
    lost = cell("llama", "key-cap", "skipped", reason=f"{UNFINISHED}: no cell came for it")
    out = text.render(shown(msgspec.structs.replace(clean(), cells=[*clean().cells, lost])))
    assert (
        "1 cell without a verdict, by a fault of mlxdiag\n"
        "  llama/key-cap: not judged: mlxdiag failed on it: no cell came for it\n"
    ) in out


def test_a_baseline_is_told_as_what_differs_from_it():
    out = text.render(shown(difference=DIFFERENCE))
    assert "2 cells (changed)" in out
    assert "  baseline: now also breaks gemma2/key-cap" in out
    assert "1 cell (new)" in out
    assert "baseline: fixed: long-gone no longer fails: remove it from the baseline" in out


def test_what_is_new_or_fixed_comes_first_and_what_is_accepted_is_a_line_at_the_end():
    out = text.render(shown(difference=ACCEPTED))
    parts = out.split("\n\n")
    assert parts[1].splitlines() == [
        "baseline: new: md902-old-1a2b3c is not in the baseline",
        "baseline: fixed: long-gone no longer fails: remove it from the baseline",
    ]
    assert parts[2].startswith("fault md902-old-1a2b3c")
    assert parts[3].split()[:4] == ["1", "2", "3", "4"]
    assert (
        "\n1 fault accepted by the baseline (--all tells them in full)\n"
        "  gemma2-window  MD108 window-not-enforced  2 cells  mlx_lm/models/gemma2.py:176\n"
    ) in out
    assert "One causal mask" not in out
    assert "One causal mask" in text.render(shown(difference=ACCEPTED, unfold=True))


def test_an_audit_that_is_as_accepted_says_so_first():
    same = Difference(accepted=[WINDOW.id, ABORT.id])
    assert text.render(shown(difference=same)).split("\n\n")[1] == "baseline: as accepted (2 faults)"


def test_another_copy_is_told_cell_by_cell():
    out = text.render(shown(comparison=COMPARISON))
    assert (
        "against mlx-lm 0.31.3: 1 broke, 0 mended, 1 skipped on one side, 1 otherwise different, 7 the same"
        in out
    )
    assert "broke    old/no-cache  pass -> crash: it died" in out
    assert "skipped  old/key-cap  skipped -> fail: a key is lost; skipped there: it has no cap" in out
    assert "differs  new/no-cache  not there -> pass" in out


def test_times_are_left_out_and_the_text_is_the_same_again():
    assert "12.5" not in text.render(shown())
    assert text.render(shown()) == text.render(shown(faulty()))


def test_clean_and_blind_are_told_apart():
    assert ": no fault found\n" in text.render(shown(clean()))
    assert "not the same as clean" in text.render(shown(blind()))


def test_colour_changes_no_word():
    import re

    plain = text.render(shown())
    painted = text.render(shown(colour=True))
    assert painted != plain
    assert re.sub("\x1b\\[[0-9;]*m", "", painted) == plain


def test_hostile_text_stays_on_its_line():
    out = text.render(shown(hostile()))
    assert "\x1b" not in out
    assert "\n::" not in out.replace("\n  ::", "\n::")
    assert "##[add-mask]" not in out
