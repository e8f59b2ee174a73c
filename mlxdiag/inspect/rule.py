"""A rule: a code, a docstring that is its help text, a predicate, and traces that must and must not fire it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from mlxdiag.inspect.findings import Finding

if TYPE_CHECKING:
    from mlxdiag.inspect.call import Call
    from mlxdiag.inspect.run import Run
    from mlxdiag.traces.types import Entry


class Rule:
    """Override the hooks that the rule needs; a rule that lacks its evidence yields nothing.

    A rule object lives for one trace and may keep per-sequence state of bounded size.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[str] = "error"
    rests_on: ClassVar[str] = "geometry"
    absorbs: ClassVar[tuple[str, ...]] = ()
    """Codes of symptoms that this rule explains: they become part of its headline at the same call."""
    fires: ClassVar[tuple[str, ...]] = ()
    """Whole small traces (YAML, without the schema line) that must fire this rule."""
    quiet: ClassVar[tuple[str, ...]] = ()
    """Close neighbours that must not."""

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        """Judge one attention call."""
        return iter(())

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        """Judge a whole entry, after its calls."""
        return iter(())

    def on_end(self, run: Run) -> Iterator[Finding]:
        """Judge what only the whole trace shows."""
        return iter(())
