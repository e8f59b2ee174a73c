"""What was taken out of a bundle: counted by rule and by member, and remembered so that it can be looked for
again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

SCHEMA = "mlxdiag.redaction/1"

SHORTEST_SECRET = 6
"""Characters. Shorter texts turn up by chance in what may stay, so they are not looked for again."""
LOOSE = ("word", "name", "message", "quoted", "relabelled", "json", "line", "field", "note")
"""Rules that take whatever is unknown: a word of theirs may well stand in a sentence of this program."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the redaction report."""

    rule: str
    what: str
    count: int
    members: dict[str, int]


class Ledger:
    """Stateful, one a bundle. The removed texts stay in this process; only their counts are written."""

    def __init__(self) -> None:
        self.member = ""
        """The part of the bundle that is being cleaned."""
        self.originals: set[str] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, rule: str, original: str = "", count: int = 1) -> None:
        """Count a removal under `rule`, and remember its text."""
        self._counts[rule, self.member] += count
        text = original.strip(" \"'.,;:()[]{}")
        if len(text) >= SHORTEST_SECRET and not (rule in LOOSE and text.isalpha()):
            self.originals.add(text)

    def count(self, rule: str) -> int:
        """Removals under a rule, over every member."""
        return sum(number for (name, _), number in self._counts.items() if name == rule)

    def report(self, what: Callable[[str], str]) -> list[Removed]:
        """Every rule that removed something, in the order of their names; `what` explains a rule."""
        lines = []
        for rule in sorted({rule for rule, _ in self._counts}):
            members = {member: n for (name, member), n in sorted(self._counts.items()) if name == rule}
            lines.append(Removed(rule=rule, what=what(rule), count=sum(members.values()), members=members))
        return lines


def document(ledger: Ledger, what: Callable[[str], str], **more: Any) -> dict[str, Any]:
    """`redaction.json`."""
    return {"schema": SCHEMA, "removed": msgspec.to_builtins(ledger.report(what)), **more}
