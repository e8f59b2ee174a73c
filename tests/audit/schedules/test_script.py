"""Writing a schedule: offsets follow from what was fed, cut and adopted."""

from mlxdiag.audit.schedules.script import Script
from mlxdiag.traces.types import Model, Row


def test_offsets_follow():
    script = Script()
    script.feed(5)
    script.cut(2)
    script.decode()
    script.adopt("b", matched=4, entry=7)
    script.feed(3, "b")
    rows = [entry.rows[0] for entry in script.trace(Model(architecture="llama")).entries]
    assert [row.offset for row in rows] == [0, None, 3, None, 4]
    assert rows[3] == Row(seq="b", matched=4, entry=7, trimmed=3, restored=4)


def test_phases_are_told_from_the_rows():
    script = Script()
    script.feed(5)
    script.feed(2)
    script.decode()
    script.feed(3, phase="verify")
    script.feed(1, "b")
    phases = [entry.phase for entry in script.trace(Model(architecture="llama")).entries]
    assert phases == ["prefill", "chunk", "decode", "verify", "prefill"]


def test_rows_are_padded_to_the_widest_on_the_side_asked_for():
    script = Script()
    script.batch({"a": 5, "b": 3})
    script.batch({"c": 5, "d": 3}, left=True)
    right, left = script.trace(Model(architecture="llama")).entries
    assert [row.right_padding for row in right.rows] == [None, 2]
    assert [row.left_padding for row in left.rows] == [None, 2]
    assert script.offsets == {"a": 5, "b": 3, "c": 5, "d": 3}


def test_tile_padding_counts_until_it_is_cut():
    script = Script()
    script.feed(3, padded=4)
    script.cut(1)
    script.feed(2)
    assert script.trace(Model(architecture="llama")).entries[-1].rows[0].offset == 3
