"""MD303 to MD306: keys that a query saw and must not, or must and did not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class Listed(Rule):
    """Fires when the list of (row, query, position) named `listed` holds anything."""

    rests_on = "visibility"
    listed: ClassVar[str]
    says: ClassVar[str]

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        triples = getattr(call.attention, self.listed) or []
        total = (call.attention.totals or {}).get(self.listed, len(triples))
        if not total:
            return
        example = ""
        if triples:
            row, query, position = triples[0]
            example = f"; the first: row {row}, query {query}, position {position}"
        evidence: dict[str, Any] = {self.listed: [list(triple) for triple in triples[:8]], "total": total}
        yield self.found(
            f"{total} pairs of query and key: {self.says}{example}",
            call=call,
            **evidence,
        )


class FutureVisible(Listed):
    """A query sees a later position of its own sequence, outside a declared bidirectional span.

    The model reads tokens it has yet to predict: a mask that was not causal, one built with too large an
    offset, or none at all on several queries.

    What to do: check that a call of several queries gets a causal mask aligned to its last key.

    Seen in: the deepseek_v3 prefill of mlxcel (#618, #667): no mask where the caller gave none.
    """

    code = "MD303"
    name = "future-visible"
    absorbs = ("MD402",)
    listed = "future"
    says = "the query sees a later position"
    fires = (
        """
steps:
- {rows: [{offset: 0, tokens: 2}], attention: [{family: full, k: 2, mask: null, future: [[0, 0, 1]]}]}
""",
    )
    quiet = (
        """
steps:
- {rows: [{offset: 0, tokens: 2}], attention: [{family: full, k: 2, mask: causal, future: []}]}
""",
    )


class PaddingVisible(Listed):
    """A real query sees a padding key, or the key of a token that was taken back.

    Tile padding left in a cache, left padding of a batch that no mask blocks, or a rejected draft that a
    rollback left behind. Such keys are real vectors; attending them shifts every answer of the row.

    What to do: trim tile padding from every layer's cache after the chunk; give left-padded batches a mask
    with a batch axis (MD501).

    Seen in: lablup/mlxcel#1755; ml-explore/mlx-lm#439; Blaizzy/mlx-vlm#1542, #1946; unslothai/unsloth#4083.
    """

    code = "MD304"
    name = "padding-visible"
    absorbs = ("MD305", "MD402")
    listed = "padding"
    says = "the query sees the key of a padding token, or of one taken back"
    fires = (
        """
steps:
- {phase: decode, rows: [{offset: 2208, tokens: 1}], attention: [{family: full, k: 2209,
   padding: [[0, 0, 2201], [0, 0, 2202]], totals: {padding: 7}}]}
""",
    )
    quiet = (
        """
steps:
- {phase: decode, rows: [{offset: 2201, tokens: 1}], attention: [{family: full, k: 2202, padding: [],
   totals: {padding: 0}}]}
""",
    )


class KeyMissing(Listed):
    """A position that the query must see is not among the keys it sees.

    The cache dropped it, the mask blocks it, or a trim and a rollback disagree about it.

    What to do: see whether the key is returned at all (MD201, MD207) or only masked (MD101, MD107).

    Seen in: lablup/mlxcel#413, #678 (narrowed windows); ml-explore/mlx-lm#1673; kekzl/imp#117.
    """

    code = "MD305"
    name = "key-missing"
    absorbs = ("MD301", "MD402")
    listed = "missing"
    says = "a required position is not seen"
    fires = (
        """
steps:
- {rows: [{offset: 4, tokens: 1}], attention: [{family: full, k: 5, missing: [[0, 0, 0]]}]}
""",
    )
    quiet = (
        """
steps:
- {rows: [{offset: 4, tokens: 1}], attention: [{family: full, k: 5, missing: [], totals: {missing: 0}}]}
""",
    )


class ForeignKeyVisible(Listed):
    """A query sees a key of another sequence. Beside wrong answers this can show one user another's text.

    What to do: stop serving, then find the row that kept a stale buffer or was filtered apart from its
    metadata (MD211, MD502).

    Seen in: waybarrios/vllm-mlx#384; ml-explore/mlx-lm#965.
    """

    code = "MD306"
    name = "foreign-key-visible"
    absorbs = ("MD402",)
    listed = "foreign"
    says = "the query sees a key of another sequence"
    fires = (
        """
steps:
- {rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
   attention: [{family: full, k: 5, foreign: [[1, 0, 2]]}]}
""",
    )
    quiet = (
        """
steps:
- {rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
   attention: [{family: full, k: 5, foreign: []}]}
""",
    )
