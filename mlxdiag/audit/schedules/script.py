"""Writing a trace by hand, a step at a time: what a scheduler would do, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mlxdiag.traces.types import Entry, Header, Model, Row, Scheduler, Trace


class Sizes(msgspec.Struct, frozen=True):
    """The lengths that a schedule is built around, in tokens."""

    window: int
    """The smallest window or block of the family; where it has none, the size that schedules pretend."""
    kv_heads: int = 2
    """Key heads: a batch of as many rows can be taken for a head axis, so another size is run too."""


Schedule = Callable[["Script", Sizes], None]
"""Writes one scenario's steps."""


class Script:
    """Keeps where each sequence is, so that a schedule reads as the scheduler would tell it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.offsets: dict[str, int] = {}

    def feed(
        self, tokens: int, seq: str = "a", *, padded: int | None = None, phase: str | None = None
    ) -> None:
        """One forward of one sequence; `padded`: fed up to that many with padding on the right."""
        self._forward([self._row(seq, tokens, padded=padded)], phase)

    def decode(self, steps: int = 1, *seqs: str) -> None:
        """Single-token forwards of these sequences together."""
        for _ in range(steps):
            self._forward([self._row(seq, 1) for seq in seqs or ("a",)], "decode")

    def batch(self, tokens: dict[str, int], *, left: bool = False, width: int | None = None) -> None:
        """One forward of several rows, those shorter than `width` (the longest) padded right, or left."""
        width = width if width is not None else max(tokens.values())
        rows = []
        for seq, count in tokens.items():
            padding = width - count or None
            sides = (padding, None) if left else (None, padding)
            rows.append(self._row(seq, count, left_padding=sides[0], right_padding=sides[1]))
        self._forward(rows, None)

    def cut(self, tokens: int, seq: str = "a", *, phase: str = "trim") -> None:
        """Take tokens off the end: a trim, or the rollback of rejected drafts."""
        self.offsets[seq] -= tokens
        self._add(phase, [Row(seq=seq, asked=tokens, done=tokens)])

    def adopt(self, seq: str, *, matched: int, entry: int, total: int | None = None) -> None:
        """Start a sequence from a stored entry of another one, what does not match cut off.

        `total`: length of its prompt, where that ends with what matched.
        """
        self.offsets[seq] = matched
        trimmed = entry - matched
        row = Row(seq=seq, matched=matched, entry=entry, trimmed=trimmed, restored=matched, total=total)
        self._add("adopt", [row])

    def event(self, phase: str, *seqs: str) -> None:
        """save, load, merge, filter, extend, extract, finalize or quantize of these sequences."""
        self._add(phase, [Row(seq=seq) for seq in seqs or ("a",)])

    def trace(self, model: Model, scheduler: Scheduler | None = None, scenario: str | None = None) -> Trace:
        """The whole, for this model; `scenario` where its name must be told."""
        source = {"program": "mlxdiag audit-models", **({"scenario": scenario} if scenario else {})}
        header = Header(source=source, model=model, scheduler=scheduler)
        return Trace(header, self.entries)

    def _row(
        self,
        seq: str,
        tokens: int,
        *,
        padded: int | None = None,
        left_padding: int | None = None,
        right_padding: int | None = None,
    ) -> Row:
        begin = self.offsets.get(seq, 0)
        self.offsets[seq] = begin + (padded if padded is not None else tokens)
        return Row(
            seq=seq,
            offset=begin,
            tokens=tokens,
            padded=padded,
            left_padding=left_padding,
            right_padding=right_padding,
        )

    def _forward(self, rows: list[Row], phase: str | None) -> None:
        self._add(phase or _phase(rows), rows)

    def _add(self, phase: str, rows: Iterable[Row]) -> None:
        self.entries.append(Entry(step=len(self.entries) + 1, phase=phase, rows=list(rows)))


def _phase(rows: list[Row]) -> str:
    if all(row.tokens == 1 for row in rows) and any(row.offset for row in rows):
        return "decode"
    return "chunk" if any(row.offset for row in rows) else "prefill"
