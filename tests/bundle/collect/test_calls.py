from __future__ import annotations

from mlxdiag.bundle.collect.calls import table
from mlxdiag.traces.reader import parse, read
from tests.bundle.orders import SAMPLE


def test_the_step_at_fault_with_what_was_due():
    lines = list(table(read(SAMPLE), 5))
    assert lines[0] == "Step 5 (chunk: seq-6 offset 2048 tokens 153 padded 160 total 2201):"
    # 671 = 511 kept of the window of 512, and 160 new; 2208 = 2048 + 160.
    assert "| sliding | rotating | 512 | 2048 | 160 | 671 | 671 | [160, 160] | discarded windowed |" in lines
    assert "| full | dense | - | 2048 | 160 | 2208 | 2208 | [160, 160] | discarded causal |" in lines


def test_a_step_without_a_call_has_no_table():
    assert list(table(read(SAMPLE), 99)) == []


def test_a_padding_mask_has_a_column_where_one_was_recorded():
    trace = parse("""
steps:
- {step: 1, phase: decode, rows: [{seq: a, offset: 12, tokens: 1}], attention: [{family: full, k: 13,
   mask: [1, 1, 1, 13], key_padding: 1}, {family: sliding, k: 8, mask: [1, 1, 1, 8]}]}
""")
    lines = list(table(trace, 1))
    assert lines[2].endswith("| its fate | padding mask |")
    assert [line.split(" | ")[-1] for line in lines[4:6]] == ["1 column |", "- |"]
