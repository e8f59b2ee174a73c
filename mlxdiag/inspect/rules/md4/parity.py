"""MD402 and MD403: logits against a reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry, Parity

SINGLE_PASS = "single-pass"
MEANINGS = {
    "visibility": "queries see other keys",
    "positions": "positions are encoded otherwise (RoPE)",
    "attention": "attention makes something else of the same queries and keys",
    "experts": "the feed-forward part computes something else",
    "norm": "a norm computes something else",
    "embedding": "the embedding differs",
    "logits": "what comes after the layers differs",
    "inside": "a layer computes something else",
    "precision": "one and the same value is rounded in one of them",
}
"""What is said of each of `types.PARTINGS`."""
NOISE = 4.0
"""A near-tie is excused only while the difference itself stays within this many tolerances."""


class _Differs(Rule):
    rests_on = "parity"
    other: ClassVar[str]

    def applies(self, parity: Parity) -> bool:
        raise NotImplementedError

    def severity_of(self, parity: Parity) -> str:
        return self.severity

    def other_of(self, parity: Parity) -> str:
        return self.other

    def why(self, parity: Parity) -> str:
        """What is known of the cause, to be put behind the sentence."""
        return ""

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        rows = entry.rows or []
        for index, output in enumerate(entry.output or ()):
            parity = output.parity
            if parity is None or parity.first is None or not self.applies(parity):
                continue
            most = "" if parity.max_abs is None else f" by up to {parity.max_abs:.3g}"
            margin = "" if parity.margin is None else f"; top-2 margin there {parity.margin:.3g}"
            yield self.found(
                f"the logits of this step differ from {self.other_of(parity)}{most}, "
                f"first at position {parity.first}{margin}{self.why(parity)}",
                severity=self.severity_of(parity),
                step=entry.step,
                seq=rows[index].seq if index < len(rows) else None,
                reference=parity.reference,
                max_abs=parity.max_abs,
                first=parity.first,
                margin=parity.margin,
                tolerance=parity.tolerance,
                compared=parity.compared,
                kind=parity.kind,
                layer=parity.layer,
                query=parity.query,
                seen=parity.seen,
                seen_there=parity.seen_there,
            )


class ParityBroken(_Differs):
    """The logits differ from a single pass of the same tokens beyond the tolerance.

    A single pass needs no scheduler, no chunks and no reuse, so it is right by construction. info when the
    reference's own top two are closer than the tolerance and the difference is of the size of rounding:
    then a flipped token is a near-tie, not corruption. Always read the largest difference too.

    What to do: take the first position and look at what the calls at that step attended (MD3).

    Seen in: ml-explore/mlx-lm#1908, #1673, #1699; lablup/mlxcel#679, #891 (their own parity tests).
    """

    code = "MD402"
    name = "parity-broken"
    other = "the single pass"
    hint = "mlxdiag replay {trace}"
    fires = (
        """
steps:
- {step: 5, rows: [{offset: 2048, tokens: 160}], output: [{parity: {reference: single-pass, max_abs: 3.4,
   first: 2048, margin: 1.25, tolerance: 0.001, compared: 160}}]}
""",
    )
    quiet = (
        # Compared, and within the tolerance: no first position.
        """
steps:
- {step: 5, rows: [{offset: 2048, tokens: 160}], output: [{parity: {reference: single-pass, max_abs: 0.00001,
   tolerance: 0.001, compared: 160}}]}
""",
        # Another library is MD403's.
        """
steps:
- {step: 5, rows: [{offset: 2048, tokens: 160}], output: [{parity: {reference: transformers, max_abs: 3.4,
   first: 2048, tolerance: 0.001, compared: 160}}]}
""",
    )

    def applies(self, parity: Parity) -> bool:
        return parity.reference in (None, SINGLE_PASS)

    def severity_of(self, parity: Parity) -> str:
        tolerance = parity.tolerance
        if tolerance is None or parity.margin is None or parity.max_abs is None:
            return "error"
        near_tie = parity.margin < tolerance and parity.max_abs <= NOISE * tolerance
        return "info" if near_tie else "error"


class LibraryParityBroken(_Differs):
    """Two libraries disagree on the same weights, beyond the tolerance.

    One of them attends other keys, positions them otherwise, or computes something else. Where somebody has
    looked inside the two forwards, the first layer that differs and what makes it differ are told. Which of
    the two is right is not said by this rule: where a query sees other keys, MD3 on both traces says it.
    warning where one and the same value is rounded in one of them.

    What to do: replay the same trace with both backends, which looks inside.

    From: windows counted with and without the query (vllm-project/vllm#3385), the families whose window one
    library does not enforce (sgl-project/sglang#30050).
    """

    code = "MD403"
    name = "library-parity-broken"
    other = "another library"
    hint = "mlxdiag replay {trace} --backend mlx,torch"
    fires = (
        """
steps:
- {step: 5, rows: [{offset: 0, tokens: 160}], output: [{parity: {reference: transformers, max_abs: 3.4,
   first: 128,
   tolerance: 0.001, compared: 160}}]}
""",
        # A window that one library does not read: layer 0, position 8.
        """
steps:
- {step: 1, rows: [{offset: 0, tokens: 19}], output: [{parity: {reference: transformers, max_abs: 4.5,
   first: 8, tolerance: 0.0002, compared: 19, kind: visibility, layer: 0, query: 8, seen: [0, 8],
   seen_there: [1, 8]}}]}
""",
    )
    quiet = (
        # Within the tolerance.
        """
steps:
- {step: 5, rows: [{offset: 0, tokens: 160}], output: [{parity: {reference: transformers, max_abs: 0.0001,
   tolerance: 0.001, compared: 160}}]}
""",
        """
steps:
- {step: 5, rows: [{offset: 0, tokens: 160}], output: [{parity: {reference: single-pass, max_abs: 3.4,
   first: 128,
   tolerance: 0.001, compared: 160}}]}
""",
    )

    def applies(self, parity: Parity) -> bool:
        return parity.reference not in (None, SINGLE_PASS)

    def severity_of(self, parity: Parity) -> str:
        return "warning" if parity.kind == "precision" else "error"

    def other_of(self, parity: Parity) -> str:
        return parity.reference or self.other

    def why(self, parity: Parity) -> str:
        if parity.kind is None:
            return ""
        where = "" if parity.layer is None else f" in layer {parity.layer}"
        said = f"; first{where}: {MEANINGS[parity.kind]}"
        if parity.query is None or parity.seen is None or parity.seen_there is None:
            return said
        here, there = spans(parity.seen), spans(parity.seen_there)
        return f"{said}; position {parity.query} sees {here} here and {there} there"


def spans(ends: list[int]) -> str:
    """`0-3, 6-8` for first and last positions in turns."""
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs) or "nothing"
