"""Names of sequences by the caches that hold them."""

from __future__ import annotations

from mlxdiag.record import lineage
from mlxdiag.record.lineage import Lineage


def test_a_cache_keeps_the_name_of_its_sequence() -> None:
    names = Lineage()
    assert names.rows([1, 2], 1) == ["seq-1"]
    assert names.rows([3, 4], 1) == ["seq-2"]
    assert names.rows([1, 2], 1) == ["seq-1"]
    assert names.of(2) == ["seq-1"]


def test_a_batch_of_another_size_is_new() -> None:
    names = Lineage()
    assert names.rows([1], 2) == ["seq-1", "seq-2"]
    assert names.rows([1], 1) == ["seq-3"]


def test_a_second_model_may_run_a_sequence_under_its_name() -> None:
    names = Lineage()
    names.rows([1], 1)
    assert names.rows([2], 1, "seq-1") == ["seq-1"]
    assert names.made == 1


def test_forwards_without_a_cache_are_sequences_of_their_own() -> None:
    names = Lineage()
    assert [names.rows([], 1), names.rows([], 1)] == [["seq-1"], ["seq-2"]]


def test_it_forgets_what_was_unused_longest() -> None:
    names = Lineage()
    names.bind([0], ["kept"])
    for uid in range(1, lineage.BOUND + 1):
        names.of(0)
        names.bind([uid], ["x"])
    assert names.of(0) == ["kept"]
    assert names.of(1) is None
