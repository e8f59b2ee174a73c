"""A tokenizer's special ids: those that a report needs, and none that could as well be somebody's words.

Kept are the padding id, the few ids that end an answer, and the ranges of reserved ids: a maintainer needs
them to tell a collapse from an answer, and they are the tokenizer's own. Lists without such a form are left
out where only a trace vouches for them: `control` is as long as its tokenizer pleases, and what it serves
is in the recorded classes. Ids in `stop` may be those of a user's own stop words: only padding and ends stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.traces.types import Tokens

MOST_ENDS = 4
"""Ids that end an answer; published configs give up to three."""
MOST_RANGES = 8
SHORTEST_RANGE = 4
"""Ids. Reserved ones come by the dozen; a range of one or two could be a word."""


def clean(tokens: Tokens, ledger: Ledger, *, own: bool = False) -> Tokens | None:
    """The special ids that may stay; None where none does.

    `own`: they were read from the tokenizer's files just now, which vouch for its control tokens.
    """
    eos = tokens.eos if tokens.eos is None or len(tokens.eos) <= MOST_ENDS else None
    reserved = list(_ranges(tokens.reserved or ()))
    kept = Tokens(
        pad=tokens.pad,
        eos=eos,
        reserved=reserved or None,
        control=tokens.control if own else None,
        stop=_stop(tokens, eos or []),
    )
    left = _count(tokens) - _count(kept)
    if left:
        ledger.take("token-ids", count=left)
    return kept if kept != Tokens() else None


def _ranges(ranges: list[tuple[int, int]] | tuple[()]) -> Iterator[tuple[int, int]]:
    """Long ones, each behind the one before: single ids in any order could spell something."""
    before = -1
    for number, (first, last) in enumerate(ranges):
        if number < MOST_RANGES and before < first and last - first >= SHORTEST_RANGE - 1:
            before = last
            yield first, last


def _stop(tokens: Tokens, eos: list[int]) -> list[int] | None:
    if tokens.stop is None:
        return None
    known = {tokens.pad, *eos}
    return [ident for ident in dict.fromkeys(tokens.stop) if ident in known]


def _count(tokens: Tokens) -> int:
    lists = (tokens.eos, tokens.reserved, tokens.control, tokens.stop)
    return sum(len(one) for one in lists if one is not None)
