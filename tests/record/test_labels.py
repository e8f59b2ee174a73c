"""What is told of token ids."""

from __future__ import annotations

from mlxdiag.record.labels import Labels
from mlxdiag.traces.types import Tokens


def test_labels_say_which_ids_are_equal_and_nothing_else() -> None:
    ids = [5, 9, 5, 5, 7]
    first, second = Labels().ids(ids), Labels().ids(ids)
    assert first != second, "drawn anew for each trace"
    for told in (first, second):
        assert len(set(told)) == 3
        assert told[0] == told[2] == told[3]


def test_labels_last_for_the_trace() -> None:
    labels = Labels()
    assert labels.ids([3]) == labels.ids([3])


def test_real_ids_only_where_they_were_asked_for() -> None:
    assert Labels(raw=True).ids([5, 9, 5]) == [5, 9, 5]


def test_classes_come_from_the_real_ids() -> None:
    tokens = Tokens(pad=3, eos=[1], control=[2], reserved=[(10, 12)])
    assert Labels().classes([5, 1, 3, 2, 11, 0], tokens) == "tepcr0"
    assert Labels().classes([0, 5], None) == "0t"
