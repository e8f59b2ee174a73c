"""Which cells are one fault, under which name, and what is told of it. Cells are written out by hand."""

from pathlib import Path

import msgspec
import pytest

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.faults.causes import Causes, Locator
from mlxdiag.audit.faults.faults import group, headline, join, representatives, stale

SOURCE = """class Model:
    def mask(self):
        return create_mask(h, cache[0])

    def other(self):
        return None
"""
HELD = {"result", "where", "trace", "reason", "oracles"}


def cell(family, scenario, *codes, **told):
    """A failing cell; what is no field of it is evidence."""
    fields = {
        "result": "fail",
        "oracles": ["visibility"],
        **{name: told[name] for name in HELD & told.keys()},
    }
    evidence = {name: value for name, value in told.items() if name not in HELD}
    return Cell(
        library="mlx-lm", family=family, scenario=scenario, codes=list(codes), evidence=evidence, **fields
    )


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "mlx_lm" / "models"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(SOURCE)
    return Locator(tmp_path)


def causes(*entries, excuses=()):
    return msgspec.convert({"causes": list(entries), "excuses": list(excuses)}, Causes)


def entry(name, families, scenarios, codes, snippet="create_mask(h, cache[0])", **more):
    return {
        "name": name,
        "match": [{"families": families, "scenarios": scenarios, "codes": codes}],
        "text": f"Text of {name}.",
        "where": {"file": "mlx_lm/models/a.py", "snippet": snippet},
        **more,
    }


def test_cells_with_the_same_rule_at_the_same_line_are_one_fault(source):
    cells = [
        cell("a", "two", "MD302", "MD305", where="mlx_lm/models/a.py:3"),
        cell("a", "one", "MD305", "MD302", where="mlx_lm/models/a.py:3"),
        cell("b", "one", "MD302", where="mlx_lm/models/a.py:3"),
    ]
    _, faults = group(cells, causes(), source)
    (fault,) = faults
    assert fault.families == ["a", "b"]
    assert fault.cells == [("a", "one"), ("a", "two"), ("b", "one")]
    assert fault.codes == ["MD302", "MD305"]
    assert not fault.known


@pytest.mark.parametrize(
    "other",
    [
        cell("a", "one", "MD203", where="mlx_lm/models/a.py:3"),
        cell("a", "one", "MD302", where="mlx_lm/models/a.py:6"),
        cell("a", "one", "MD302", where="mlx_lm/models/b.py:3"),
        cell("a", "one", "MD302"),
    ],
)
def test_another_rule_line_or_file_is_another_fault(source, other):
    mine = cell("a", "two", "MD302", where="mlx_lm/models/a.py:3")
    _, faults = group([mine, other], causes(), source)
    assert len(faults) == 2


def test_crashes_with_other_numbers_are_one_fault_and_other_words_two(source):
    def crash(scenario, reason):
        return cell("a", scenario, "MD901", result="crash", where="mlx_lm/models/a.py:3", reason=reason)

    shapes = [crash("one", "Shapes (5,5) and (1,4,5,12)"), crash("two", "Shapes (8,16) and (1,4,8,15)")]
    assert len(group(shapes, causes(), source)[1]) == 1
    assert len(group([*shapes, crash("three", "cannot reshape")], causes(), source)[1]) == 2


def test_the_name_of_a_fault_outlives_moved_lines_and_not_a_changed_one(source, tmp_path):
    mine = cell("a", "one", "MD302", where="mlx_lm/models/a.py:3")
    before = group([mine], causes(), source)[1][0].id
    path = tmp_path / "mlx_lm/models/a.py"
    path.write_text("import os\n" + SOURCE)
    moved = msgspec.structs.replace(mine, where="mlx_lm/models/a.py:4")
    assert group([moved], causes(), Locator(tmp_path))[1][0].id == before
    path.write_text(SOURCE.replace("cache[0]", "cache[1]"))
    assert group([mine], causes(), Locator(tmp_path))[1][0].id != before
    assert before.startswith("md302-a-")


def test_a_known_cause_joins_cells_whatever_their_rules_and_finds_its_line(source):
    known = causes(entry("one-mask", ["a", "g*"], ["*"], ["MD302", "MD108"], code="MD108"))
    cells = [
        cell("a", "one", "MD302"),
        cell("gemma", "two", "MD108", "MD302"),
        cell("b", "one", "MD302"),
        cell("a", "two", "MD203"),
    ]
    judged, faults = group(cells, known, source)
    (fault,) = (fault for fault in faults if fault.known)
    assert (fault.id, fault.code, fault.where) == ("one-mask", "MD108", "mlx_lm/models/a.py:3")
    assert fault.cells == [("a", "one"), ("gemma", "two")]
    assert fault.cause == "Text of one-mask."
    assert judged[0].where == "mlx_lm/models/a.py:3"
    assert len(faults) == 3


def test_a_fault_that_nobody_has_read_up_does_not_hide_behind_a_known_one(source):
    window = entry("window", ["a"], ["*"], ["MD302"], code="MD302")
    mine = cell("a", "one", "MD302", "MD901")
    assert not group([mine], causes(window), source)[1][0].known
    crash = entry("crash", ["a"], ["one"], ["MD901"], code="MD901")
    (fault,) = group([mine], causes(crash, window), source)[1]
    assert fault.id == "crash"


def test_an_entry_with_a_mark_fits_only_where_the_mark_is(source):
    held = entry("draft", ["a"], ["*"], ["MD209", "MD402"], code="MD209")
    held["match"][0]["mark"] = "MD209"
    judged, _ = group([cell("a", "one", "MD402"), cell("a", "two", "MD209", "MD402")], causes(held), source)
    assert [one.signature == "draft" for one in judged] == [False, True]


def test_an_entry_with_a_reason_fits_only_where_the_cell_gives_it(source):
    held = entry("shapes", ["a"], ["*"], ["MD901"], code="MD901")
    held["match"][0]["reason"] = r"broadcast_shapes|row \d "
    reasons = ("[broadcast_shapes] (2,4)", "row 3 is short", "row of ducks", "")
    cells = [cell("a", str(at), "MD901", reason=reason) for at, reason in enumerate(reasons)]
    judged, _ = group(cells, causes(held), source)
    assert [one.signature == "shapes" for one in judged] == [True, True, False, False]


def test_an_excuse_makes_a_pass_only_where_it_allows_every_code(source):
    excuse = entry("routing-noise", ["moe"], ["quantized-*"], ["MD402"])
    cells = [
        cell("moe", "quantized-keys", "MD402"),
        cell("moe", "quantized-keys-long", "MD402", "MD305"),
        cell("moe", "fresh", "MD402"),
        cell("dense", "quantized-keys", "MD402"),
        cell("moe", "quantized-crash", "MD402", result="crash"),
    ]
    judged, faults = group(cells, causes(excuses=[excuse]), source)
    assert [one.result for one in judged] == ["pass", "fail", "fail", "fail", "crash"]
    assert judged[0].excuse == "routing-noise"
    assert judged[0].reason == "Text of routing-noise."
    assert sum(len(fault.cells) for fault in faults) == 4


def test_an_entry_whose_line_is_gone_explains_and_excuses_nothing(source):
    gone = {"snippet": "no such line"}
    held = causes(
        entry("it", ["*"], ["one"], ["MD302"], code="MD302", **gone),
        excuses=[entry("harmless", ["a"], ["two"], ["MD302"], **gone)],
    )
    cells = [cell("a", "one", "MD302"), cell("a", "two", "MD302")]
    judged, faults = group(cells, held, source)
    assert [one.result for one in judged] == ["fail", "fail"]
    assert not any(fault.known for fault in faults)


def test_passing_and_skipped_cells_are_left_as_they_are(source):
    cells = [cell("a", "one", result="pass"), cell("a", "two", "MD302", result="skipped")]
    anything = causes(entry("anything", ["*"], ["*"], ["MD302"], code="MD302"))
    assert group(cells, anything, source) == (cells, [])


def test_what_is_told_is_of_the_shortest_schedule(source):
    cells = [
        cell("a", "long", "MD302", trace="x" * 90, first=40, max_abs=3.0, positions=[40, 41]),
        cell("b", "short", "MD302", trace="x", first=8, max_abs=0.5, tolerance=0.1, positions=[8]),
        cell("c", "long", "MD302", trace="x" * 90, oracles=["parity"]),
    ]
    known = causes(entry("it", ["*"], ["*"], ["MD302"], code="MD302"))
    _, (fault,) = group(cells, known, source)
    assert (fault.first, fault.max_abs, fault.tolerance, fault.positions) == (8, 0.5, 0.1, [8])
    assert fault.oracles == ["visibility", "parity"]
    assert representatives(fault, cells)[0].family == "b"


def test_joining_in_parts_gives_what_joining_at_once_gives(source):
    cells = [
        cell(family, scenario, "MD302", trace="x" * size, first=size)
        for size, (family, scenario) in enumerate(
            [("c", "one"), ("a", "two"), ("b", "one"), ("a", "one"), ("d", "two")], 3
        )
    ]
    known = causes(entry("it", ["*"], ["one"], ["MD302"], code="MD302"))
    judged, whole = group(cells, known, source)
    halves = [group(cells[::2], known, source)[1], group(cells[1::2], known, source)[1]]
    assert join([*halves[1], *halves[0]], judged) == whole


def test_an_entry_whose_line_is_gone_is_told(source):
    held = causes(
        entry("there", ["*"], ["*"], ["MD302"], code="MD302"),
        entry("gone", ["*"], ["*"], ["MD302"], snippet="no such line", code="MD302"),
        excuses=[entry("away", ["*"], ["one"], ["MD302"], snippet="neither")],
    )
    assert stale(held, source) == [
        "stale cause gone: mlx_lm/models/a.py does not hold 'no such line'",
        "stale excuse away: mlx_lm/models/a.py does not hold 'neither'",
    ]


@pytest.mark.parametrize(
    ("codes", "first"),
    [
        (["MD402", "MD305"], "MD305"),
        (["MD305", "MD101", "MD203"], "MD101"),
        (["MD108", "MD901"], "MD901"),
        (["MD402"], "MD402"),
    ],
)
def test_the_headline_says_most_about_what_is_broken(codes, first):
    assert headline(codes) == first


def test_a_place_without_a_file_is_no_error():
    nowhere = Locator(Path("/nowhere"))
    assert nowhere.source("mlx_lm/models/a.py:3") == ""
    assert nowhere.source("") == ""
    assert nowhere.source("a.py:x") == ""
