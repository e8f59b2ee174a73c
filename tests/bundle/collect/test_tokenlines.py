from __future__ import annotations

from mlxdiag.bundle.collect import tokenlines
from mlxdiag.traces.reader import parse

TRACE = parse(
    """
    steps:
    - {"step": 1, "rows": [{"seq": "a", "tokens": 5, "emitted": 1, "classes": "t", "ids": [1]}]}
    - {"step": 2, "rows": [{"seq": "a", "tokens": 1, "emitted": 2, "classes": "pp", "finish": "length"}, {"seq": "b", "tokens": 3}]}
    """  # noqa: E501
)


def test_a_line_for_each_row_that_emitted():
    assert tokenlines.document(TRACE).decode().splitlines() == [
        '{"step":1,"seq":"a","classes":"t","ids":[1]}',
        '{"step":2,"seq":"a","classes":"pp","finish":"length"}',
    ]


def test_in_words():
    assert tokenlines.in_words(TRACE) == ["a emitted 3 tokens (2 pad, 1 text): `tpp`; it ended by length"]
