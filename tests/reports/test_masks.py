import re

from mlxdiag.inspect.inspector import Inspector
from mlxdiag.reports import masks
from mlxdiag.reports.text import render
from mlxdiag.reports.view import View
from mlxdiag.traces.reader import parse
from tests.reports.test_attended import SLIDING, calls, rows

BLIND = (
    SLIDING + "{step: 3, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding, k: 8, "
    "mask: [8, 4], fate: discarded, fallback: sliced}]}"
)


def drawn(text, **settings):
    return masks.draw(calls(text)[0], **settings)


def kept(text):
    """The call that is drawn of a trace, and the report on it."""
    trace = parse(text)
    inspector, keeper = Inspector(trace.header), masks.Keeper()
    for entry in trace.entries:
        found = inspector.feed(entry)
        keeper.take(entry, found, inspector.run)
    return keeper.call, inspector.close()


def test_every_key_is_a_letter_where_there_is_room():
    """W = 4, a mask of 4 columns over 8 keys: query p sees what it is due of keys 4 to 7."""
    picture = [line for line in drawn(BLIND) if re.match(r" +\d+  [#x.]+$", line)]
    wanted = []
    for position in range(8):
        due = [position - 4 < key <= position for key in range(8)]
        wanted.append("".join("." if not due[key] else "#" if key >= 4 else "x" for key in range(8)))
    assert [line.split()[1] for line in picture] == wanted


def test_a_misfit_is_two_bars_at_one_scale():
    keys, mask = (line for line in drawn(BLIND) if "=" in line)
    assert (keys.count("="), mask.count("=")) == (40, 20)


def test_many_keys_share_a_letter_and_the_gravest_is_shown():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 999, tokens: 1}], attention: [{family: full, k: 1000, first: [[0]], "
        "last: [[999]], visible: [[999]], missing: [[0, 0, 500]]}]}"
    )
    ((position, kinds),) = masks.cells(row, 10)
    assert position == 999
    assert [masks.LETTERS[kind] for kind in kinds] == ["~"] * 5 + ["x"] + ["~"] * 4


def test_padding_keys_have_a_cell_of_their_own():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 3, tokens: 1}], attention: [{family: full, k: 5, first: [[0]], "
        "last: [[3]], visible: [[5]], padding: [[0, 0, -1]]}]}"
    )
    ((_, kinds),) = masks.cells(row, 10)
    assert "".join(masks.LETTERS[kind] for kind in kinds) == "p####"


def test_no_line_is_wider_than_asked():
    wide = BLIND.replace("tokens: 8", "tokens: 700").replace("k: 8", "k: 700").replace("[8, 4]", "[700, 4]")
    assert all(len(line) <= 40 for line in drawn(wide, width=40) if re.match(r" +\d+  ", line))
    assert len(drawn(wide)) < 20


def test_plain_has_no_escapes_and_colour_only_adds_them():
    plain, painted = drawn(BLIND), drawn(BLIND, colour=True)
    assert "\x1b" not in "".join(plain)
    assert re.sub(r"\x1b\[[\d;]*m", "", "\n".join(painted)) == "\n".join(plain)
    assert "\x1b" in "".join(painted)


def test_the_call_of_an_error_is_drawn_rather_than_that_of_a_warning():
    text = (
        SLIDING + "{step: 1, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding, k: 8, "
        "mask: [8, 4], fate: discarded, fallback: windowed}]}\n"
        "- {step: 2, phase: chunk, rows: [{seq: b, offset: 0, tokens: 8}], attention: [{family: sliding, "
        "k: 8, mask: [8, 4], fate: discarded, fallback: none}]}"
    )
    call, report = kept(text)
    assert {finding.severity for finding in report.findings} >= {"error", "warning"}
    assert call.entry.step == 2


def test_a_clean_trace_is_not_drawn():
    call, report = kept(
        SLIDING + "{step: 1, rows: [{offset: 0, tokens: 3}], attention: [{family: full, offset: 0, k: 3, "
        "mask: [3, 3]}]}"
    )
    assert not report.findings
    assert call is None


def test_the_text_report_holds_the_drawing():
    call, report = kept(BLIND)
    report.source = "t.yaml"
    text = render([report], View(drawn={"t.yaml": call}))
    assert "step 3, a, sliding: 7 of 8 queries do not see what they must (derived from shapes)\n" in text
    assert f"\n  keys      8 {'=' * 40}\n" in text


def test_a_hostile_name_stays_on_one_line():
    text = BLIND.replace("seq: a", r'seq: "a\n::error::x\e[31m"')
    call, report = kept(text)
    report.source = "t.yaml"
    shown = render([report], View(drawn={"t.yaml": call}))
    assert "\x1b" not in shown
    assert "\n::error" not in shown


def test_a_trace_judged_before_gives_the_same_drawing():
    call, report = kept(BLIND)
    again = masks.of_trace(parse(BLIND), report.findings)
    assert masks.draw(again) == masks.draw(call)


def test_a_narrow_drawing_names_both_ends():
    assert drawn(BLIND)[3] == "  query  keys 0 to 7"
