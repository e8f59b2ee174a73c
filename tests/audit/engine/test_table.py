"""The columns that are named twice are the same."""

from mlxdiag.audit.distributed import distributed, told
from mlxdiag.audit.engine import table


def test_the_columns_of_split_models_are_those_that_are_run():
    assert table.APART == (told.TENSOR, told.PIPELINE)


def test_no_column_is_named_twice_and_the_usual_ones_leave_the_split_models_out():
    assert len(set(table.NAMES)) == len(table.NAMES)
    assert set(table.USUAL).isdisjoint(table.APART)
    assert (*table.USUAL, *table.APART) == table.NAMES


def test_both_libraries_are_split_in_both_ways() -> None:
    for library in ("mlx-lm", "transformers"):
        usual = table.usual(library)
        assert table.names(library) == (*usual, *distributed.KINDS)
        assert set(usual).isdisjoint(table.APART)
