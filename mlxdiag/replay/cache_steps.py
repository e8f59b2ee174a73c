"""Trims, evictions and adoptions: from the rows of a trace to ops. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.replay import memory
from mlxdiag.replay.ops import Adopt, Cut, Evict, Op
from mlxdiag.replay.tape import LONGEST, Tape
from mlxdiag.traces.types import Entry, Family, Row, Scheduler

DEFAULT_SEQ = "seq-1"
"""The name of the only sequence of a trace that names none."""


def cuts(
    entry: Entry, rows: list[Row], where: str, tapes: dict[str, Tape], families: dict[str, Family]
) -> Iterator[Op]:
    """A trim or rollback entry; what the recorded caches did not give back is kept, on all or some layers.

    Raises:
        UnreadableError: no or a negative number of tokens, or more than the sequence holds.
    """
    cuts: dict[str, tuple[int, dict[str, int]]] = {}
    for i, row in enumerate(rows):
        seq, tokens = row.seq or DEFAULT_SEQ, row.asked if row.asked is not None else row.done
        if tokens is None:
            raise UnreadableError(f"{where}: rows[{i}].asked: how many tokens are cut is not said")
        if tokens < 0:
            raise UnreadableError(f"{where}: rows[{i}].asked: {tokens} tokens cannot be taken back")
        done = max(row.done, 0) if row.done is not None else tokens
        if done <= tapes[seq].offset < tokens and row.done is not None:
            tokens = tapes[seq].offset  # the caches gave back all they had
        kept = _kept(entry, tokens, min(done, tokens), families)
        tapes[seq].cut(tokens, f"{where}: rows[{i}].asked", kept.get("", 0))
        cuts[seq] = tokens, kept
    tokens, kept = next(iter(cuts.values()))
    if all(cut == (tokens, kept) for cut in cuts.values()):
        yield Cut(entry.step, entry.kind, tuple(cuts), tokens, kept)
    else:
        for seq, (tokens, kept) in cuts.items():
            yield Cut(entry.step, entry.kind, (seq,), tokens, kept)


def _kept(entry: Entry, tokens: int, done: int, families: dict[str, Family]) -> dict[str, int]:
    """By family, what the recorded caches did not give back of `tokens`; "" where all kept the same."""
    if done < tokens:
        return {"": tokens - done}
    told = [(c.family, c.done) for c in entry.attention or [] if c.done is not None]
    return {f: tokens - max(n, 0) for f, n in told if f in families and f is not None and n < tokens}


def evictions(entry: Entry, rows: list[Row], where: str, scheduler: Scheduler) -> Iterator[Op]:
    """An evict entry: the front of the dense caches goes.

    Raises:
        UnreadableError: nothing says how many keys stay, or none would.
    """
    cap = scheduler.max_kv
    for i, row in enumerate(rows):
        if cap is None and row.size is None:
            raise UnreadableError(f"{where}: rows[{i}].size: neither it nor scheduler.max_kv says what stays")
        left = row.size if row.size is not None else cap or 0
        if left < 1:
            raise UnreadableError(f"{where}: rows[{i}].size: an eviction down to {left} keys leaves none")
        yield Evict(entry.step, (row.seq or DEFAULT_SEQ,), left, scheduler.keep or 0)


def adoption(entry: Entry, row: Row, where: str, tapes: dict[str, Tape]) -> Adopt:
    """An adopt entry, or the load of a sequence that was not fed before; the sequence's tape starts anew.

    Raises:
        UnreadableError: lengths that contradict each other, or none.
        UnjudgedError: an entry longer than a replay holds.
    """
    seq = row.seq or DEFAULT_SEQ
    matched = row.matched if row.matched is not None else row.restored
    if matched is None:
        raise UnreadableError(f"{where}.matched: how many tokens were adopted is not said")
    entry_length = row.entry if row.entry is not None else matched
    if matched > entry_length:
        raise UnreadableError(f"{where}.matched: {matched} of an entry of {entry_length} tokens")
    bounded(entry_length, where)
    left = matched if row.trimmed is None else entry_length - row.trimmed
    restored = row.restored if row.restored is not None else left
    if row.trimmed is not None and not 0 <= row.trimmed <= entry_length:
        raise UnreadableError(f"{where}.trimmed: {row.trimmed} of an entry of {entry_length} tokens")
    if restored > entry_length:
        raise UnreadableError(f"{where}.restored: {restored} of an entry of {entry_length} tokens")
    # What the cache really held decides, whatever a faulty program says that it cut off.
    trimmed = entry_length - restored
    tape = tapes[seq] = Tape(seq)
    tape.adopt(entry_length - trimmed, matched)
    return Adopt(entry.step, seq, matched, entry_length, trimmed, whole=row.total == matched)


def bounded(tokens: int, where: str) -> None:
    """Raises UnjudgedError for what no machine replays, before anything of that size is made."""
    if tokens > LONGEST:
        raise UnjudgedError(
            f"{where}: {tokens} tokens in one sequence are more than a replay holds ({LONGEST}); "
            f"the scores of their single pass alone would take {memory.human(memory.scores(tokens))}"
        )
