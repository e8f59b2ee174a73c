"""The books of a recorded run: what every sequence was fed and what it answered, added up over the trace."""

from __future__ import annotations

import msgspec

from mlxdiag.traces.types import FORWARD_PHASES, Entry, Row, Trace


class Account(msgspec.Struct):
    """One sequence. All counts are tokens."""

    total: int = 0
    """Length of its prompt."""
    adopted: int = 0
    """Of the prompt, not fed: a store or a file had them."""
    prompt: int = 0
    """Of the prompt, fed."""
    answered: int = 0
    """Of the answer, fed back."""
    emitted: int = 0
    labels: list[int] = []
    finish: str | None = None


def accounts(trace: Trace, model: str | None = None) -> dict[str, Account]:
    """By name of the sequence; of `model` where several ran."""
    books: dict[str, Account] = {}
    for entry in trace.entries:
        if entry.model in (None, model) or model is None:
            for row in entry.rows or ():
                assert row.seq is not None
                _book(entry, row, books.setdefault(row.seq, Account()))
    return books


def _book(entry: Entry, row: Row, account: Account) -> None:
    if entry.kind in FORWARD_PHASES:
        assert row.offset is not None
        if account.emitted == 0 and row.total is not None:
            account.total = row.total
        new = max(0, min(account.total - row.offset, row.tokens or 0))
        account.prompt += new
        account.answered += (row.tokens or 0) - new
    elif entry.kind in ("adopt", "load"):
        account.adopted = row.restored or 0
    account.emitted += row.emitted or 0
    account.labels += row.ids or []
    if row.emitted is not None and row.classes is not None:
        assert len(row.classes) == row.emitted
    account.finish = row.finish or account.finish
