"""The first step and field where two traces part."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from mlxdiag.traces.diff import first_difference
from mlxdiag.traces.reader import open_stream, parse
from mlxdiag.traces.types import Trace
from mlxdiag.traces.writer import dump
from tests.traces.strategies import traces

A = """
scheduler: {chunk: 512}
steps:
- {step: 1, phase: prefill, rows: [{seq: a, tokens: 8, ids: [7, 8, 7]}], attention: [{k: 8, mask: [8, 8]}]}
- {step: 2, phase: decode, rows: [{seq: a, tokens: 1, offset: 8, ids: [9]}], time: 1.5}
"""

CHANGES = [
    ("k: 8", "k: 9", (0, 1, "attention[0].k", 8, 9)),
    ("mask: [8, 8]", "mask: [8, 9]", (0, 1, "attention[0].mask", [8, 8], [8, 9])),
    ("mask: [8, 8]", "mask: null", (0, 1, "attention[0].mask", [8, 8], None)),
    ("mask: [8, 8]", "q: 8", (0, 1, "attention[0].mask", [8, 8], msgspec.UNSET)),
    ("{k: 8,", "{q: 8, k: 8,", (0, 1, "attention[0].q", msgspec.UNSET, 8)),
    (", mask: [8, 8]}", "}, {k: 8}", (0, 1, "attention[0].mask", [8, 8], msgspec.UNSET)),
    ("offset: 8", "offset: 9", (1, 2, "rows[0].offset", 8, 9)),
    ("phase: decode", "phase: chunk", (1, 2, "phase", "decode", "chunk")),
    ("step: 2", "step: 3", (1, 2, "step", 2, 3)),
    ("chunk: 512", "chunk: 256", (None, None, "header.scheduler.chunk", 512, 256)),
    ("scheduler: {chunk: 512}", "", (None, None, "header.scheduler", {"chunk": 512}, msgspec.UNSET)),
]


@pytest.mark.parametrize(("old", "new", "expected"), CHANGES)
def test_change_is_found_at_its_place(old: str, new: str, expected: tuple[object, ...]) -> None:
    found = first_difference(parse(A), parse(A.replace(old, new, 1)))
    assert found
    assert msgspec.structs.astuple(found) == expected


def test_earlier_change_hides_a_later_one() -> None:
    found = first_difference(parse(A), parse(A.replace("k: 8", "k: 9").replace("offset: 8", "offset: 9")))
    assert found
    assert found.field == "attention[0].k"


def test_missing_entry_is_a_difference_with_no_field() -> None:
    whole, short = parse(A), parse(A.rsplit("- {", 1)[0])
    found = first_difference(whole, short)
    assert found
    assert (found.index, found.step, found.field, found.right) == (1, 2, "", msgspec.UNSET)
    back = first_difference(short, whole)
    assert back
    assert (back.index, back.step, back.left) == (1, 2, msgspec.UNSET)


def test_added_row_is_named() -> None:
    found = first_difference(parse(A), parse(A.replace("ids: [9]}", "ids: [9]}, {seq: b}")))
    assert found
    assert (found.field, found.left, found.right) == ("rows[1]", msgspec.UNSET, {"seq": "b"})


@pytest.mark.parametrize(
    ("ids", "then", "field"),
    [
        ("[1, 2, 1]", "[3]", None),
        ("[1, 2, 3]", "[4]", "rows[0].ids[2]"),
        ("[1, 1, 1]", "[4]", "rows[0].ids[1]"),
        ("[1, 2, 1]", "[2]", "rows[0].ids[0]"),
        ("[7, 8, 7]", "[7]", "rows[0].ids[0]"),
        ("[1, 2]", "[4]", "rows[0].ids[2]"),
        ("[1, 2, 1, 3]", "[4]", "rows[0].ids[3]"),
    ],
)
def test_relabelled_ids_agree_when_one_relabelling_maps_all(ids: str, then: str, field: str | None) -> None:
    other = A.replace("[7, 8, 7]", ids).replace("[9]", then)
    found = first_difference(parse(A), parse(other))
    assert (found and found.field) == field


def test_raw_ids_must_be_the_same() -> None:
    other = A.replace("[7, 8, 7]", "[1, 2, 1]")
    found = first_difference(parse("ids: raw" + A), parse("ids: raw" + other))
    assert found
    assert (found.field, found.left, found.right) == ("rows[0].ids", [7, 8, 7], [1, 2, 1])
    assert first_difference(parse("ids: raw" + A), parse(other)) is None


def test_time_and_origin_make_no_difference() -> None:
    other = "source: {program: other}\n" + A.replace("1.5", "2.5").lstrip()
    assert first_difference(parse(A), parse(other)) is None
    found = first_difference(parse(A), parse(other), ignore=())
    assert found
    assert found.field == "time"


def test_common_fields_only() -> None:
    other = A.replace(", mask: [8, 8]", ", live: 3").replace("offset: 8", "offset: 9")
    found = first_difference(parse(A), parse(other), common=True)
    assert found
    assert found.field == "rows[0].offset"


def test_headers_can_be_left_out() -> None:
    other = A.replace("chunk: 512", "chunk: 256").replace("offset: 8", "offset: 9")
    found = first_difference(parse(A), parse(other), header=False)
    assert found
    assert found.field == "rows[0].offset"


def test_nan_equals_nan() -> None:
    nan = parse("steps:\n- {step: 1, output: [{margin: .nan}]}\n")
    assert first_difference(nan, parse("steps:\n- {step: 1, output: [{margin: .nan}]}\n")) is None
    found = first_difference(nan, parse("steps:\n- {step: 1, output: [{margin: 0.5}]}\n"))
    assert found
    assert found.field == "output[0].margin"


def test_long_lists_name_the_index() -> None:
    one = "steps:\n- attention: [{first: [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]}]\n"
    found = first_difference(parse(one), parse(one.replace("0]]", "1]]")))
    assert found
    assert (found.field, found.left, found.right) == ("attention[0].first[0][9]", 0, 1)


def test_streams_are_compared_without_holding_them(tmp_path: Path) -> None:
    dump(parse(A), tmp_path / "a.yaml")
    dump(parse(A.replace("offset: 8", "offset: 9")), tmp_path / "b.yaml")
    with open_stream(tmp_path / "a.yaml") as left, open_stream(tmp_path / "b.yaml") as right:
        found = first_difference(left, right)
    assert found
    assert (found.step, found.field) == (2, "rows[0].offset")


@settings(max_examples=60, deadline=None)
@given(traces)
def test_trace_does_not_differ_from_itself(trace: Trace) -> None:
    assert first_difference(trace, trace) is None
