"""MD301 and MD302: how many keys each query really saw."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect import geometry
from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run

ALL_TOTALS = frozenset({"missing", "future", "padding", "foreign", "old", "duplicate"})


class EmptyRow(Rule):
    """A real query that sees no key at all.

    With an additive mask of -inf the softmax of such a row is NaN on some kernels, and every later token is
    `<pad>` or id 0; with a boolean mask others give a uniform average over all keys, which looks like fluent
    nonsense. Padding queries may be empty.

    What to do: find the mask (MD107 names the capped one); each query must at least see itself.

    Seen in: lablup/mlxcel#401, #412, #413; ml-explore/mlx#2395, #2626; huggingface/transformers#32522,
    #45491.
    """

    code = "MD301"
    name = "empty-row"
    rests_on = "visibility"
    absorbs = ("MD401", "MD402")
    fires = (
        """
steps:
- {rows: [{offset: 0, tokens: 4}], attention: [{family: full, k: 4, visible: [[0, 2, 3, 4]]}]}
""",
    )
    quiet = (
        # The query without keys is padding: -1, not 0.
        """
steps:
- {rows: [{offset: 0, tokens: 3, padded: 4}], attention: [{family: full, k: 4, visible: [[1, 2, 3, -1]]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        empty = [
            (row, query)
            for row, counts in enumerate(call.attention.visible or ())
            for query, count in enumerate(counts)
            if count == 0
        ]
        if empty:
            row, query = empty[0]
            yield self.found(
                f"{len(empty)} real queries see no key, the first at row {row}, query {query}",
                call=call,
                empty_rows=len(empty),
                row=row,
                query=query,
            )


class WindowCount(Rule):
    """A query sees fewer or more positions than its layer requires.

    Required: every live position up to its own on a full layer, the last W (the query counted) on a sliding
    one, its own block on a chunked one. Pinned sinks may come on top. A difference of one everywhere is
    most likely a window convention (W counts the query in MLX and in transformers; flash attention's
    `window_size` does not).

    Inside a declared bidirectional span the count is not judged.

    What to do: compare the window of the mask builder with the config's, on both sides of the window.

    Seen in: ml-explore/mlx-lm#390; vllm-project/vllm#3385; huggingface/transformers#39408;
    ml-explore/mlx-swift-examples#371; sgl-project/sglang#30050.
    """

    code = "MD302"
    name = "window-count"
    rests_on = "visibility"
    absorbs = ("MD301", "MD303", "MD304", "MD305", "MD306", "MD402")
    fires = (
        # No window: the last query sees twelve keys where eight are its window.
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 8}}}
steps:
- {rows: [{offset: 8, tokens: 4}], attention: [{family: sliding, k: 12, visible: [[9, 10, 11, 12]]}]}
""",
        # One key too many: the window does not count the query.
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 8}}}
steps:
- {rows: [{offset: 20, tokens: 2}], attention: [{family: sliding, k: 22, visible: [[9, 9]]}]}
""",
    )
    quiet = (
        """
model: {layers: {sliding: {attention: sliding, window: 8}}}
steps:
- {rows: [{offset: 4, tokens: 6}], attention: [{family: sliding, k: 10, visible: [[5, 6, 7, 8, 8, 8]]}]}
""",
        # Pinned sinks come on top of the window.
        """
model: {layers: {sliding: {attention: sliding, window: 8, keep: 2}}}
steps:
- {rows: [{offset: 20, tokens: 2}], attention: [{family: sliding, visible: [[10, 9]]}]}
""",
        # An image span sees itself whole.
        """
steps:
- {rows: [{offset: 0, tokens: 4}], attention: [{family: full, k: 4, visible: [[1, 4, 4, 4]],
   last: [[0, 3, 3, 3]], future: []}]}
""",
        # A left-padded row: its positions start below zero, its padding queries are -1.
        """
steps:
- {rows: [{seq: a, left_padding: 0}, {seq: b, left_padding: 2}], attention: [{family: full, cache: batch,
   offset: [0, -2], cursor: 0, q: 4, k: 4, mask: [2, 1, 4, 4], visible: [[1, 2, 3, 4], [-1, -1, 1, 2]]}]}
""",
        # A key cap: the live ones are what can be seen.
        """
scheduler: {max_kv: 16}
steps:
- {rows: [{offset: 24, tokens: 2}], attention: [{family: full, live_start: 8, k: 18, visible: [[17, 18]]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        visible, offsets = call.attention.visible, call.offsets
        if visible is None or offsets is None or len(offsets) != len(visible) or _all_right(call):
            return
        off = [found for row in range(len(visible)) for found in _differences(call, row, offsets[row])]
        if not off:
            return
        row, query, seen, wanted = max(off, key=lambda one: abs(one[2] - one[3]))
        by_one = all(abs(one[2] - one[3]) == 1 for one in off)
        yield self.found(
            f"{len(off)} queries see another number of keys than required; row {row}, query {query} sees "
            f"{seen}, required {wanted}",
            severity="warning" if by_one else "error",
            call=call,
            queries=len(off),
            row=row,
            query=query,
            visible=seen,
            required=wanted,
            duplicates=(call.attention.totals or {}).get("duplicate"),
        )


def _all_right(call: Call) -> bool:
    """The reader of the masks compared every position and found nothing, which is more than a count can
    say."""
    totals = call.attention.totals
    return totals is not None and totals.keys() >= ALL_TOTALS and not any(totals.values())


def _differences(call: Call, row: int, offset: int) -> Iterator[tuple[int, int, int, int]]:
    """(row, query, seen, required) where they differ; empty and padding queries and spans are left out."""
    a = call.attention
    assert a.visible is not None
    capped = call.live_start if call.kind == "full" and call.batch in (None, 1) else 0
    for query, seen in enumerate(a.visible[row]):
        position = offset + query
        if seen <= 0 or position < 0 or _in_span(call, row, query, position):
            continue
        wanted = geometry.required_count(call.kind or "", position, call.window, capped)
        if wanted is None:
            return
        sinks = min(max(call.keep, call.live_start and 4), position + 1 - wanted)
        if not wanted <= seen <= wanted + sinks:
            yield row, query, seen, wanted


def _in_span(call: Call, row: int, query: int, position: int) -> bool:
    """Later positions are seen, and none of them is called wrong: a declared bidirectional span."""
    a = call.attention
    if a.last is None or a.future is None or (a.totals or {}).get("future"):
        return False
    return not a.future and row < len(a.last) and query < len(a.last[row]) and a.last[row][query] > position
