"""MD610: drafts that are no longer accepted."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.tokens import Key, row_key
from mlxdiag.traces.types import Entry

ROUNDS = 16
"""Verify rounds behind either side of a comparison."""
SEQUENCES = 256
ONE = 1.25
"""Tokens a round, the free one included, that count as about one."""


def _rounds(seq: str, accepted: int, rounds: int = ROUNDS) -> str:
    row = f"{{seq: {seq}, tokens: 5, drafted: 4, accepted: {accepted}}}"
    return f"- {{phase: verify, rows: [{row}]}}\n" * rounds


class AcceptanceCollapse(Rule):
    """Drafts that used to be accepted no longer are.

    Over 16 rounds a sequence gains about one token a round, or less than half of what rounds with as
    many drafts gained before. After the window, that is the mark of a cache that did not roll back;
    code and prose differ too, so it is a warning. Rounds without a draft do not count: speculation that
    stands down is legal.

    What to do: compare the offset with the window at the round where it fell, then look at MD204 and
    MD209.

    Seen in: llama.cpp#23544; sglang#36537.
    """

    code = "MD610"
    name = "acceptance-collapse"
    severity = "warning"
    rests_on = "tokens"
    hint = "mlxdiag replay {trace}"
    fires = ("steps:\n" + _rounds("a", 3) + _rounds("b", 0), "steps:\n" + _rounds("a", 4) + _rounds("a", 1))
    quiet = (
        "steps:\n" + _rounds("a", 3) + _rounds("b", 2),
        # Never was any better.
        "steps:\n" + _rounds("a", 0) + _rounds("b", 0),
        # Too few rounds.
        "steps:\n" + _rounds("a", 3) + _rounds("b", 0, ROUNDS - 1),
    )

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[Key, int], deque[int]] = OrderedDict()
        """Accepted drafts of each sequence's last rounds, by how many were drafted."""
        self._all: dict[int, tuple[int, int]] = {}
        """Rounds and accepted drafts of the whole trace, by how many were drafted."""

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        for row in entry.rows or ():
            key = row_key(entry, row)
            if key is not None and row.drafted and row.accepted is not None:
                yield from self._round(entry, key, row.drafted, row.accepted)

    def _round(self, entry: Entry, key: Key, drafted: int, accepted: int) -> Iterator[Finding]:
        recent = self._recent.setdefault((key, drafted), deque(maxlen=ROUNDS))
        self._recent.move_to_end((key, drafted))
        if len(self._recent) > SEQUENCES:
            self._recent.popitem(last=False)
        recent.append(accepted)
        rounds, total = self._all.get(drafted, (0, 0))
        if rounds or len(self._all) < SEQUENCES:
            self._all[drafted] = (rounds + 1, total + accepted)
        earlier = rounds + 1 - len(recent)
        if earlier < ROUNDS or len(recent) < ROUNDS:
            return
        was, now = 1 + (total + accepted - sum(recent)) / earlier, 1 + sum(recent) / ROUNDS
        if was >= 2 and (now <= ONE or now < was / 2):
            yield self.found(
                f"speculation gained {now:.1f} tokens a round over the last {ROUNDS}, after {was:.1f} before",
                seq=key[1],
                step=entry.step,
                drafted=drafted,
                before=round(was, 2),
                now=round(now, 2),
            )
