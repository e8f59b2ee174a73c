"""A rule: a code, a docstring that is its help text, a predicate, traces that must and must not fire it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from mlxdiag.inspect.findings import Finding

if TYPE_CHECKING:
    from mlxdiag.inspect.call import Call
    from mlxdiag.inspect.run import Run
    from mlxdiag.traces.types import Entry


class Rule:
    """Override the hooks that the rule needs; a rule that lacks its evidence yields nothing.

    A rule object lives for one trace and may keep per-sequence state of bounded size. `on_call` is not asked
    about calls that `healthy.py` finds healthy, `on_entry` not about entries that are healthy throughout.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[str] = "error"
    rests_on: ClassVar[str] = "geometry"
    absorbs: ClassVar[tuple[str, ...]] = ()
    """Codes of the symptoms that this rule explains. At the same call the symptom stays the headline and this
    rule's sentence goes into the headline's `cause`; without a symptom the rule is a headline of its own."""
    hint: ClassVar[str] = "mlxdiag rule {code}"
    """The next command to run; `{code}` and `{trace}` are filled in."""
    fires: ClassVar[tuple[str, ...]] = ()
    """Whole small traces (YAML, without the schema line) that must fire this rule."""
    quiet: ClassVar[tuple[str, ...]] = ()
    """Close neighbours that must not."""

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        """Judge one attention call."""
        return iter(())

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        """Judge a whole entry, after its calls. `run.sequences` has already read the entry."""
        return iter(())

    def on_end(self, run: Run) -> Iterator[Finding]:
        """Judge what only the whole trace shows."""
        return iter(())

    def found(
        self,
        message: str,
        *,
        severity: str | None = None,
        call: Call | None = None,
        family: str | None = None,
        seq: str | None = None,
        step: int | None = None,
        cause: list[str] | None = None,
        **evidence: Any,
    ) -> Finding:
        """A finding of this rule; step, sequence and family come from `call` where it is given."""
        if call is not None:
            rows = call.entry.rows or []
            step = call.entry.step if step is None else step
            seq = rows[0].seq if seq is None and len(rows) == 1 else seq
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            message=message,
            rests_on=self.rests_on,
            step=step,
            seq=seq,
            family=call.family if call is not None else family,
            evidence={key: value for key, value in evidence.items() if value is not None},
            cause=cause or [],
            hint=self.hint,
        )
