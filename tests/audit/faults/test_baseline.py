"""A list of accepted faults may only shrink."""

import json

import pytest

from mlxdiag.audit.cell import Audit, Cell, Fault
from mlxdiag.audit.faults.baseline import Baseline, Difference, compare, dump, load, of
from mlxdiag.errors import UnreadableError

SCHEMA = "mlxdiag.audit-baseline/1"


def audit(faults, passed=(), skipped=()):
    """Faults by id with their cells, and cells that passed or were skipped, as `family/scenario`."""
    wrong = {name: [tuple(cell.split("/")) for cell in cells] for name, cells in faults.items()}
    cells = [_cell(cell, "fail", name) for name, held in wrong.items() for cell in held]
    cells += [_cell(tuple(cell.split("/")), "pass") for cell in passed]
    cells += [_cell(tuple(cell.split("/")), "skipped") for cell in skipped]
    return Audit(
        libraries={"mlx-lm": "1.0"},
        device="cpu",
        cells=cells,
        faults=[
            Fault(id=name, code="MD302", library="mlx-lm", families=[], cells=held, cause="c")
            for name, held in wrong.items()
        ],
    )


def _cell(place, result, signature=""):
    return Cell(library="mlx-lm", family=place[0], scenario=place[1], result=result, signature=signature)


def held(**faults):
    return Baseline(schema=SCHEMA, faults={name.replace("_", "-"): cells for name, cells in faults.items()})


def test_what_is_accepted_is_clean():
    found = compare(held(x=["a/one", "a/two"]), audit({"x": ["a/one", "a/two"]}, passed=["a/three"]))
    assert found == Difference(accepted=["x"])
    assert found.clean
    assert list(found.lines()) == []


def test_a_new_fault_fails_and_is_named():
    found = compare(held(x=["a/one"]), audit({"x": ["a/one"], "y": ["b/one"]}))
    assert not found.clean
    assert list(found.lines()) == ["new: y is not in the baseline"]


def test_a_new_cell_of_an_accepted_fault_fails_and_is_named():
    found = compare(held(x=["a/one"]), audit({"x": ["a/one", "b/two"]}))
    assert list(found.lines()) == ["new: x now also breaks b/two"]


def test_what_is_told_of_one_fault_is_left_out_of_the_rest():
    found = compare(
        held(x=["a/one", "a/two"], y=["c/one"]), audit({"x": ["a/one", "b/two"]}, passed=["a/two", "c/one"])
    )
    assert list(found.changes("x")) == [
        "now also breaks b/two",
        "no longer breaks a/two: remove them from the baseline",
    ]
    assert list(found.changes("y")) == []
    assert list(found.lines(without={"x"})) == ["fixed: y no longer fails: remove it from the baseline"]


def test_a_mended_fault_fails_until_it_is_taken_off():
    found = compare(held(x=["a/one"]), audit({}, passed=["a/one"]))
    assert list(found.lines()) == ["fixed: x no longer fails: remove it from the baseline"]
    assert not found.clean


def test_a_mended_cell_fails_until_it_is_taken_off():
    found = compare(held(x=["a/one", "a/two"]), audit({"x": ["a/one"]}, passed=["a/two"]))
    assert list(found.lines()) == ["fixed: x no longer breaks a/two: remove them from the baseline"]


@pytest.mark.parametrize("rest", [{}, {"skipped": ["a/two"]}])
def test_what_was_not_run_or_was_skipped_is_not_mended(rest):
    assert compare(held(x=["a/one", "a/two"]), audit({"x": ["a/one"]}, **rest)).clean
    assert compare(held(x=["a/two"]), audit({}, passed=["b/one"], **rest)).clean


def test_a_shard_does_not_call_a_fault_mended_that_has_cells_elsewhere():
    found = compare(held(x=["a/one", "b/one"]), audit({}, passed=["a/one"]))
    assert found.fixed_faults == []
    assert found.fixed_cells == {"x": ["a/one"]}


def test_a_cell_that_fails_for_another_reason_is_both_mended_and_new():
    found = compare(held(x=["a/one"]), audit({"y": ["a/one"]}))
    assert (found.new_faults, found.fixed_faults) == (["y"], ["x"])


def test_what_is_written_is_read_again_and_accepts_itself(tmp_path):
    whole = audit({"x": ["a/one", "a/two"], "y": ["b/one"]}, passed=["c/one"])
    path = tmp_path / "b.yaml"
    path.write_text(dump(of(whole)))
    assert load(path) == of(whole)
    assert compare(load(path), whole).clean


def test_json_is_read_too(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"schema": SCHEMA, "faults": {"x": ["a/one"]}}))
    assert load(path) == held(x=["a/one"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("faults: {}", "schema"),
        ("schema: other/1\nfaults: {}", "other/1"),
        (f"schema: {SCHEMA}\nfaults: [x]", "faults"),
        (f"schema: {SCHEMA}\nfaults: {{x: a/one}}", "faults"),
        (f"schema: {SCHEMA}\nfaults: {{x: [a]}}", "faults.x: 'a'"),
        (f"schema: {SCHEMA}\nfaults: {{}}\ncolour: red", "colour"),
        ("{", "b.yaml"),
        ("faults: {x: [2024-13-45]}", "b.yaml"),
        ("", "b.yaml"),
        ("\x00", "b.yaml"),
    ],
)
def test_what_is_no_baseline_is_unreadable(tmp_path, text, says):
    path = tmp_path / "b.yaml"
    path.write_text(text)
    with pytest.raises(UnreadableError, match=says):
        load(path)


def test_a_missing_file_is_unreadable(tmp_path):
    with pytest.raises(UnreadableError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")
