"""Objects into records, errors into the user's terms."""

from __future__ import annotations

import msgspec
import pytest

from mlxdiag.traces.decode import BadEntry, convert
from mlxdiag.traces.types import Entry, Header, Model, Row


def test_unknown_fields_are_left_out_and_told_by_path() -> None:
    told: list[str] = []
    value = {"step": 1, "zzz": 1, "rows": [{"tokens": 3, "qqq": {"tokens": "x"}}], "config": {"free": 1}}
    assert convert(value, Entry, told.append) == Entry(step=1, rows=[Row(tokens=3)], config={"free": 1})
    assert told == ["zzz ignored", "rows[].qqq ignored"]


def test_headers_model_is_pruned_too() -> None:
    told: list[str] = []
    header = convert({"model": {"layers": {"full": {"windows": 3}}}}, Header, told.append)
    assert header.model == Model(layers={"full": msgspec.convert({}, type(header.model.layers["full"]))})  # type: ignore[union-attr, index]
    assert told == ["model.layers.full.windows ignored (did you mean window?)"]


def test_error_carries_the_step() -> None:
    with pytest.raises(BadEntry, match=r"^rows\[0\]\.tokens: expected int, got str$") as caught:
        convert({"step": 9, "rows": [{"tokens": "x"}]}, Entry, print)
    assert caught.value.step == 9
    with pytest.raises(BadEntry) as caught:
        convert({"step": "nine"}, Entry, print)
    assert caught.value.step is None


@pytest.mark.parametrize("value", [None, 5, "x", [1]])
def test_only_a_mapping_is_an_entry(value: object) -> None:
    with pytest.raises(BadEntry, match="expected a mapping, got "):
        convert(value, Entry, print)
