"""What contradicts itself is refused; what a faulty program can do is not."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.checks import check
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Entry, Row

IMPOSSIBLE = {
    "rows: [{tokens: 8}, {tokens: 153, padded: 150}]": r"rows\[1\]\.padded: 150 is less than the 153 tokens",
    "rows: [{classes: ttx}]": r"rows\[0\]\.classes: 'ttx' has letters that are none of t, c, r, p, e, 0",
    "{phase: prefill, rows: [{left_padding: 5, tokens: 8, padded: 12}]}": r"left_padding: 5 and 8 tokens do",
    "{phase: prefill, rows: [{left_padding: 5, tokens: 4}], attention: [{q: 8}]}": r"fit a prefill of 8",
    "{phase: prefill, rows: [{left_padding: 5, offset: -5, tokens: 4}], attention: [{q: 8}]}": r"do not fit",
    "{rows: [{}, {}], attention: [{offset: [0, 1, 2]}]}": r"attention\[0\]\.offset: 3 values for 2 rows",
    "{rows: [{}, {}], attention: [{}, {k: [5]}]}": r"attention\[1\]\.k: 1 values for 2 rows",
    "{rows: [{}, {}], attention: [{rope: []}]}": r"attention\[0\]\.rope: 0 values for 2 rows",
    "{rows: [{}, {}], attention: [{first: [[0]]}]}": r"attention\[0\]\.first: 1 lists for 2 rows",
    "{rows: [{}, {}], attention: [{visible: [[0]]}]}": r"attention\[0\]\.visible: 1 lists for 2 rows",
    "attention: [{first: [[0, 0]], last: [[1]]}]": r"attention\[0\]\.last: not as long as first",
    "attention: [{visible: [[1], [2]], last: [[1]]}]": r"attention\[0\]\.visible: not as long as last",
    "attention: [{missing: [[]]}]": r"missing: \[\] is no row, query and position",
    "attention: [{foreign: [[0, 0, 3], [0, 1]]}]": r"foreign: \[0, 1\] is no row, query and position",
    "attention: [{missing: [[0, 0, 3], [0, 1, 3]], totals: {missing: 1}}]": r"totals\.missing: 1, though 2",
    "tokens: {reserved: [[5, 9], [9, 5]]}": r"tokens\.reserved\[1\]: ends at 5, before it begins at 9",
    "rows: [{tokens: -1}]": r"rows\[0\]\.tokens: expected int >= 0",
    "rows: [{emitted: -1}]": r"rows\[0\]\.emitted: expected int >= 0",
    "attention: [{q: -1}]": r"attention\[0\]\.q: expected int >= 0",
    "output: [{nan: -1}]": r"output\[0\]\.nan: expected int >= 0",
    "dropped: -1": r"dropped: expected int >= 0",
}

# Each of these a program has done, or can do: https://github.com/ml-explore/mlx-lm keeps negative offsets and
# paddings in its batch caches, and a trim amount below zero was reported against a server built on it.
POSSIBLE = [
    "rows: [{tokens: 153, padded: 153}]",
    "rows: [{offset: -5, left_padding: 5, tokens: 3, padded: 8}]",
    "rows: [{left_padding: -2, tokens: 1}]",
    "{phase: decode, rows: [{left_padding: 5, offset: 9, tokens: 1}], attention: [{q: 1}]}",
    "{phase: prefill, rows: [{left_padding: 5, offset: 3, tokens: 8}], attention: [{q: 8}]}",
    "{phase: prefill, rows: [{left_padding: 5, tokens: 3}], attention: [{q: 8}, {q: 1}]}",
    "{phase: trim, rows: [{asked: 4, done: 9}]}",
    "{phase: trim, rows: [{asked: -4, done: -4}]}",
    "{phase: adopt, rows: [{matched: 90, entry: 60, trimmed: -3, restored: 99}]}",
    "attention: [{k: -9, mask: [160, -345], buffer: 0, live: -1, cursor: -2, offset: [-1, 4]}]",
    "attention: [{mask: []}, {mask: [8]}]",
    "{rows: [{}, {}], attention: [{offset: [0, 1, 2], vectors: {offset: 3}}]}",
    "{rows: [{emitted: 3, classes: t, ids: [1, 2]}]}",
    "{rows: [{drafted: 1, accepted: 2}]}",
    "attention: [{missing: [[0, 0, 3]], totals: {missing: 900}}]",
    "output: [{logprob: null}, {logprob: nan}, {margin: .nan}]",
]


def text(fields: str) -> str:
    return f"steps:\n- {fields if fields.startswith('{') else '{' + fields + '}'}\n"


@pytest.mark.parametrize("fields", IMPOSSIBLE)
def test_contradiction_names_its_field(fields: str) -> None:
    with pytest.raises(UnreadableError, match=IMPOSSIBLE[fields]):
        parse(text(fields))


@pytest.mark.parametrize("fields", POSSIBLE)
def test_fault_of_the_program_stays_readable(fields: str) -> None:
    assert len(parse(text(fields)).entries) == 1


def test_check_names_file_and_step_or_place() -> None:
    rows = [Row(tokens=2, padded=1)]
    with pytest.raises(
        UnreadableError, match=r"^a\.yaml: step 7: rows\[0\]\.padded: 1 is less than the 2 tokens"
    ):
        check(Entry(step=7, rows=rows), 0, "a.yaml")
    with pytest.raises(UnreadableError, match=r"^a\.yaml: entry 1: rows"):
        check(Entry(rows=rows), 0, "a.yaml")
    check(Entry(rows=[Row(tokens=2)]), 0, "a.yaml")
