"""Lines into list items."""

from __future__ import annotations

import pytest

from mlxdiag.traces.items import BadLine, Item, Items, balanced


def fed(text: str) -> list[tuple[int, str]]:
    items, got = Items(), []
    for number, line in enumerate(text.encode().split(b"\n"), 1):
        got += items.feed(line, number)
    got += items.flush()
    return [(item.line, item.text.decode()) for item in got]


def test_dash_becomes_blank_so_that_columns_stay() -> None:
    assert fed("- a: 1\n  b: 2\n- c: 3") == [(1, "  a: 1\n  b: 2"), (3, "  c: 3")]
    assert fed("  -   a: 1\n      b: 2") == [(1, "      a: 1\n      b: 2")]


def test_dashes_of_inner_lists_begin_no_item() -> None:
    assert len(fed("- rows:\n  - a: 1\n  - a: 2\n- x: 1")) == 2


def test_closed_flow_mapping_is_given_at_its_own_line() -> None:
    items = Items()
    assert list(items.feed(b'- {"a": "}"}', 1)) == [Item(b'  {"a": "}"}', 1)]
    assert items.idle
    assert list(items.feed(b'- {"a": {"b": 1}', 2)) == []
    assert not items.idle
    assert list(items.feed(b"}", 3)) == []
    assert list(items.flush()) == [Item(b'  {"a": {"b": 1}\n}', 2)]


def test_comments_and_blanks_belong_to_no_item_before_the_first() -> None:
    assert fed("\n# c\n   \n- a: 1") == [(4, "  a: 1")]


def test_marker_ends_the_list() -> None:
    items = Items()
    assert list(items.feed(b"- a: 1", 1)) == []
    assert len(list(items.feed(b"... # done", 2))) == 1
    assert items.ended
    assert list(items.feed(b"# comment", 3)) == []
    with pytest.raises(BadLine, match="one file holds one trace"):
        list(items.feed(b"- b: 1", 4))


def test_misplaced_line_gives_the_item_before_it_first() -> None:
    items = Items()
    list(items.feed(b"- a: 1", 1))
    iterator = items.feed(b"note: x", 2)
    assert next(iterator).line == 1
    with pytest.raises(BadLine, match="`note:` after the steps"):
        next(iterator)


@pytest.mark.parametrize(
    ("text", "closed"),
    [(b"{}", True), (b"{[}", False), (b'{"{": 1}', True), (b'{"\\"{": 1}', True), (b"{a: '}', b: {", False)],
)
def test_brackets_inside_quotes_do_not_count(text: bytes, closed: bool) -> None:
    assert balanced(text) is closed
