from msgspec import structs

from mlxdiag.reports import text
from mlxdiag.reports.view import View
from tests.reports.examples import blind, clean, faulty, hostile

PLAIN = View()


def test_a_finding_shows_headline_numbers_cause_ground_and_next_command():
    shown = text.render([faulty()], PLAIN)
    for part in (
        "runs/a.yaml: 1 error, 1 warning, 1 info",
        "error MD101 mask-shorter-than-keys  step 5, seq-6, sliding (35 times)",
        "  The mask covers 160 keys, the layer returned 671.",
        "  cause: MD105 mask-from-stale-offset: built with offset 0 where 2048 were held",
        "  numbers: q=160  k=671  mask=[160, 160]",
        "  rests on geometry: shapes and counters alone",
        "  next: mlxdiag replay trace.yaml",
        "13 steps, 24 attention calls: 22 judged, 2 not observed.",
    ):
        assert part in shown.split("\n"), part


def test_a_table_has_aligned_columns_and_tells_unseen_from_zero():
    lines = text.render([faulty()], PLAIN).split("\n")
    assert "  policy            crash  empty rows  parity" in lines
    assert "  strict            yes    -           -" in lines
    assert "  discard:windowed  no     0           1.5e-06" in lines


def test_long_lists_and_floats_are_cut_short_with_their_length():
    report = faulty()
    numbers = {"seen": [[0, 0, -1]] * 7, "gap": 4.440857887268066, "shape": [1, 8, 160, 671]}
    report.findings[0] = structs.replace(report.findings[0], evidence=numbers)
    shown = text.render([report], PLAIN)
    assert "seen=[[0, 0, -1], [0, 0, -1], [0, 0, -1], [0, 0, -1], and 3 more]" in shown
    assert "gap=4.441  shape=[1, 8, 160, 671]" in shown


def test_nothing_judged_is_not_called_clean():
    assert "clean: no rule fired" in text.render([clean()], PLAIN)
    shown = text.render([blind()], PLAIN)
    assert "clean: no rule fired" not in shown
    assert "nothing could be judged" in shown


def test_partly_observed_is_not_called_clean():
    report = clean()
    report.summary.not_observed = 1
    assert "1 lack what the rules need" in text.render([report], PLAIN).split("\n")[0]


def test_plain_text_has_no_escape_sequence_and_terminal_text_has():
    assert "\x1b" not in text.render([faulty()], PLAIN)
    assert "\x1b[1;31merror\x1b[0m MD101" in text.render([faulty()], View(colour=True, width=80))


def test_text_is_wrapped_only_to_a_width():
    report = faulty()
    report.summary.notes.append("word " * 60)
    wrapped = text.render([report], View(width=60)).split("\n")
    assert max(len(line) for line in wrapped if line.startswith(("  ", "note"))) <= 60
    assert any(len(line) > 200 for line in text.render([report], PLAIN).split("\n"))


def test_hostile_text_stays_on_its_line_and_gives_no_order():
    for line in text.render([hostile()], PLAIN).split("\n"):
        assert line.isprintable()
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
