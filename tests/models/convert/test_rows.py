"""The data file."""

from mlxdiag.models.convert.rows import row, table


def test_every_entry_says_why_it_is_there() -> None:
    assert [name for name, entry in table().items() if not (entry.why or entry.apart)] == []


def test_a_variant_takes_its_familys_entry_where_it_has_none() -> None:
    assert row("minimax+window").apart == row("minimax").apart != ""
    assert row("gemma3n_text+shared").weights == ["unread_keys"]


def test_a_family_without_an_entry_needs_nothing() -> None:
    entry = row("llama")
    assert (entry.build, entry.publish, entry.keys, entry.weights) == ({}, {}, {}, [])
