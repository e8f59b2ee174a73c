"""Schedules of several sequences in one forward."""

from __future__ import annotations

from collections.abc import Mapping

from mlxdiag.audit.schedules.script import Schedule, Script, Sizes

NAMES = "abcdefgh"


def left_padding(script: Script, sizes: Sizes) -> None:
    """Five rows and more: what begins to differ with the size of a batch shows."""
    _left(script, sizes, max(sizes.kv_heads + 1, 5))


def left_padding_as_heads(script: Script, sizes: Sizes) -> None:
    """As many rows as key heads: a row axis taken for a head axis then fits, and says nothing."""
    _left(script, sizes, sizes.kv_heads)


def left_padding_after_wrap(script: Script, sizes: Sizes) -> None:
    """The ring turns while a row still has padding in it, then several tokens come at once."""
    script.batch({"a": sizes.window - 1, "b": sizes.window - 4}, left=True)
    script.decode(3, "a", "b")
    script.batch({"a": 3, "b": 3})
    script.decode(1, "a", "b")


def right_padding(script: Script, sizes: Sizes) -> None:
    _right(script, sizes, sizes.kv_heads + 1)


def right_padding_as_heads(script: Script, sizes: Sizes) -> None:
    _right(script, sizes, sizes.kv_heads)


def right_padding_chunked(script: Script, sizes: Sizes) -> None:
    """A prompt step size below the prompts: rows end in different pieces, one before the last is fed."""
    _pieces(script, sizes, last=3)


def right_padding_last_token(script: Script, sizes: Sizes) -> None:
    """The same, where a single token is left for the last piece."""
    _pieces(script, sizes, last=1)


def _pieces(script: Script, sizes: Sizes, last: int) -> None:
    step = sizes.window // 2
    lengths = {"a": 2 * step + last, "b": step + 2, "c": step - 1}
    script.event("merge", *lengths)
    for begin in range(0, lengths["a"], step):
        width = min(step, lengths["a"] - begin)
        script.batch({seq: max(0, min(width, n - begin)) for seq, n in lengths.items()}, width=width)
    script.event("finalize", *lengths)
    script.decode(2, *lengths)


def ragged(script: Script, sizes: Sizes) -> None:
    """Requests join and leave between steps: merge, extend, filter, extract; then one is served alone.

    A ring that turned token by token is merged, and goes on until it would drop what the merge put in the
    wrong place. The longest row leaves: those that stay all have padding, which the filter takes away.
    """
    script.feed(sizes.window - 1, "a")
    script.decode(3, "a")
    script.feed(sizes.window - 3, "b")
    script.event("merge", "a", "b")
    script.decode(2, "a", "b")
    script.feed(sizes.window // 2, "c")
    script.event("extend", "a", "b", "c")
    script.decode(2, "a", "b", "c")
    script.event("extract", "a")
    script.event("filter", "b", "c")
    script.decode(2, "b", "c")
    script.feed(sizes.window // 2 + 1, "a")
    script.event("extract", "c")
    script.decode(1, "c")


def ragged_prompts(script: Script, sizes: Sizes) -> None:
    """Rows with different histories go on with prompts of different lengths, as a second turn does."""
    script.feed(sizes.window + 2, "a")
    script.feed(sizes.window // 2, "b")
    script.event("merge", "a", "b")
    script.batch({"a": 3, "b": sizes.window - 1})
    script.event("finalize", "a", "b")
    script.decode(2, "a", "b")


def ragged_join(script: Script, sizes: Sizes) -> None:
    """A prompt joins others that are under way, as the server's prompt batch takes new requests in."""
    script.event("merge", "a", "b")
    script.batch({"a": sizes.window - 2, "b": sizes.window - 2})
    script.event("extend", "a", "b", "c")
    script.batch({"a": 4, "b": 3, "c": sizes.window - 1})
    script.event("finalize", "a", "b", "c")
    script.decode(2, "a", "b", "c")


def ragged_fresh_row(script: Script, sizes: Sizes) -> None:
    """Nothing is padded: the fresh row has no history, and that is all."""
    script.feed(sizes.window // 2, "a")
    script.event("merge", "a", "b")
    script.batch({"a": 3, "b": 3})
    script.decode(2, "a", "b")


def ragged_save_and_load(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window + 1, "a")
    script.feed(sizes.window - 3, "b")
    script.event("merge", "a", "b")
    script.decode(1, "a", "b")
    script.event("save", "a", "b")
    script.event("load", "a", "b")
    script.decode(2, "a", "b")
    script.batch({"a": 2, "b": 4})
    script.event("finalize", "a", "b")
    script.decode(1, "a", "b")


def key_cap_batch(script: Script, sizes: Sizes) -> None:
    """Two requests of equal length: what is pinned alone must be pinned beside another."""
    script.event("merge", "a", "b")
    script.batch({"a": sizes.window - 1, "b": sizes.window - 1})
    script.decode(sizes.window - 2, "a", "b")


def _left(script: Script, sizes: Sizes, rows: int) -> None:
    script.batch(lengths(sizes, rows), left=True)
    script.batch(dict.fromkeys(NAMES[:rows], sizes.window // 2))
    script.decode(2, *NAMES[:rows])


def _right(script: Script, sizes: Sizes, rows: int) -> None:
    fed = lengths(sizes, rows)
    script.event("merge", *fed)
    script.batch(fed)
    script.event("finalize", *fed)
    script.decode(2, *fed)


def lengths(sizes: Sizes, rows: int) -> dict[str, int]:
    """Real tokens by row: the first past the window, the others below it, and no two alike."""
    return {
        seq: max(1, sizes.window + 2 - (3 if i == 1 else 2 * i + 2 if i else 0))
        for i, seq in enumerate(NAMES[:rows])
    }


BATCH: Mapping[str, Schedule] = {
    "left-padding": left_padding,
    "left-padding-as-heads": left_padding_as_heads,
    "left-padding-after-wrap": left_padding_after_wrap,
    "right-padding": right_padding,
    "right-padding-as-heads": right_padding_as_heads,
    "right-padding-chunked": right_padding_chunked,
    "right-padding-last-token": right_padding_last_token,
    "ragged-batch": ragged,
    "ragged-prompts": ragged_prompts,
    "ragged-join": ragged_join,
    "ragged-fresh-row": ragged_fresh_row,
    "ragged-save-and-load": ragged_save_and_load,
    "key-cap-batch": key_cap_batch,
}
