"""Reads a trace entry by entry, asks the rules where something could be wrong, reports each fault once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, structs

from mlxdiag.errors import UsageError
from mlxdiag.inspect.call import Call, build
from mlxdiag.inspect.degenerate import settle
from mlxdiag.inspect.findings import Finding, Report, Summary, codes
from mlxdiag.inspect.headline import Explains, fold
from mlxdiag.inspect.healthy import Healthy
from mlxdiag.inspect.ledger import Ledger
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules import OF_SEQUENCES, RULES
from mlxdiag.inspect.run import Run, is_model
from mlxdiag.inspect.tracks import Tracks
from mlxdiag.traces.types import EVENT_PHASES, Entry, Header, Trace


def inspect_trace(trace: Trace, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Report:
    """Judge a whole trace.

    Raises:
        UsageError: `select` or `ignore` holds a prefix that begins no rule's code.
    """
    inspector = Inspector(trace.header, select, ignore)
    for entry in trace.entries:
        inspector.feed(entry)
    return inspector.close(truncated=trace.truncated)


class Inspector:
    """Stateful and of bounded size: the run so far and the findings so far, each distinct fault once."""

    def __init__(
        self,
        header: Header,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        *,
        source: str | None = None,
        quick: bool = True,
    ) -> None:
        """Show the headlines that `select` and `ignore` leave; every rule is asked all the same.

        A headline is selected by its own code or by one of its causes (empty: all are), and ignored by its
        own code alone: silencing a fault does not turn its causes into headlines. `source` is the file's
        name, for the commands in hints. `quick=False` asks the rules about every call, healthy or not; the
        findings are the same.
        """
        chosen(select, ignore)
        self._select, self._ignore = tuple(select), tuple(ignore)
        self.run = Run(header)
        self._healthy = Healthy(self.run)
        self._tracks = Tracks(self.run.sequences)
        self._is_healthy, self._is_steady = self._healthy.entry, self._tracks.decode
        self._model: str | None = None
        self._quick = quick
        self._steady = self._passed = self._others = 0
        """Entries in steady decode, calls found healthy, and all other entries."""
        self._opaque = 0
        """Calls of attention functions that the recorder did not know."""
        self._summary = Summary()
        self._ledger = Ledger(source)
        self._explains: Explains = {rule.code: frozenset(rule.absorbs) for rule in RULES if rule.absorbs}
        objects = [rule() for rule in RULES]
        self._on_call = [rule for rule in objects if type(rule).on_call is not Rule.on_call]
        self._on_entry = [rule for rule in objects if type(rule).on_entry is not Rule.on_entry]
        self._on_sequences = [rule for rule in self._on_entry if type(rule) in OF_SEQUENCES]
        """Those that an entry of healthy calls can still interest."""
        self._on_end = [rule for rule in objects if type(rule).on_end is not Rule.on_end]
        if header.model is not None:
            self._judge(_as_entry(header), (), self._on_entry)

    def feed(self, entry: Entry) -> list[Finding]:
        """Judge one entry. Returns the findings not seen before, for a reader that follows a growing file."""
        run = self.run
        healthy = False
        if self._quick:
            if entry.model is not None and entry.model != self._model:
                self._switch(entry)
            step, before = entry.step, run.step
            healthy = (before is None or step is None or before <= step <= before + 1) and self._is_healthy(
                entry
            )
            if healthy and entry.phase == "decode" and self._is_steady(entry):
                if step is not None:
                    run.step = step
                run.last = entry
                self._steady += 1
                self._passed += len(entry.attention)  # type: ignore[arg-type]
                return _NONE
            self._tracks.leave(entry, forward=healthy or run.is_forward(entry))
        self._others += 1
        undisturbed = run.enter(entry)
        if is_model(entry):
            self._model = None
            self._healthy.forget()
        elif entry.phase != "end":
            self._summary.steps += 1
        if healthy:
            self._passed += len(entry.attention)  # type: ignore[arg-type]
            return _NONE if undisturbed else self._judge(entry, (), self._on_sequences)
        calls = entry.attention
        if not calls and _holds_evidence(entry):
            self._summary.other += 1
        built = [build(entry, index, run) for index in range(len(calls))] if calls else []
        return self._judge(entry, built, self._on_entry)

    def close(self, truncated: bool = False) -> Report:
        """The report. `truncated`: the file was cut off, so its last line is missing."""
        self._tracks.flush()
        self.run.truncated = self._summary.truncated = truncated
        self._ledger.add_all(fold(list(self._ending()), self._explains))
        summary = self._summary
        summary.steps += self._steady
        summary.calls += self._passed
        summary.judged += self._passed
        found = settle(self._ledger.findings(), summary.judged)
        findings = [finding for finding in found if self._wanted(finding)]
        summary.hidden = len(found) - len(findings)
        summary.errors = sum(1 for one in findings if one.severity == "error")
        summary.warnings = sum(1 for one in findings if one.severity == "warning")
        summary.infos = len(findings) - summary.errors - summary.warnings
        summary.notes = [*self._ledger.notes(), *_opaque(self._opaque), *_recorded(self.run.header)]
        return Report(source=self._ledger.source, findings=findings, summary=summary)

    def _switch(self, entry: Entry) -> None:
        """Another model's turn: its families are its own."""
        self._model = entry.model
        self.run.switch(entry)
        self._healthy.forget()

    def _judge(self, entry: Entry, calls: Sequence[Call], rules: Sequence[Rule]) -> list[Finding]:
        run = self.run
        of_calls = [found for call in calls for found in self._of_call(call)]
        of_entry = [f for rule in rules for f in rule.on_entry(entry, run)]
        if not of_calls and not of_entry:
            return _NONE
        found = fold(of_calls + of_entry, self._explains)
        if entry.step is None:
            found = [_placed(finding, self._steady + self._others) for finding in found]
        return [finding for finding in self._ledger.add_all(found) if self._wanted(finding)]

    def _wanted(self, finding: Finding) -> bool:
        selected = not self._select or any(code.startswith(self._select) for code in codes([finding]))
        return selected and not (self._ignore and finding.code.startswith(self._ignore))

    def _of_call(self, call: Call) -> list[Finding]:
        found = [finding for rule in self._on_call for finding in rule.on_call(call, self.run)]
        self._summary.calls += 1
        if found or judgeable(call):
            self._summary.judged += 1
        else:
            self._summary.not_observed += 1
        self._opaque += bool(call.attention.opaque)
        return found

    def _ending(self) -> Iterator[Finding]:
        for rule in self._on_end:
            yield from rule.on_end(self.run)


_NONE: list[Finding] = []


def chosen(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> tuple[type[Rule], ...]:
    """The rules that remain after `--select` and `--ignore`.

    Raises:
        UsageError: a prefix begins no rule's code, or nothing remains.
    """
    for prefix in (*select, *ignore):
        if not prefix or not any(rule.code.startswith(prefix) for rule in RULES):
            raise UsageError(f"no rule's code begins with {prefix!r}; `mlxdiag rule` lists them")
    left = tuple(
        rule
        for rule in RULES
        if (not select or rule.code.startswith(tuple(select))) and not rule.code.startswith(tuple(ignore))
    )
    if not left:
        raise UsageError(f"--select {','.join(select)} and --ignore {','.join(ignore)} leave no rule")
    return left


def _recorded(header: Header) -> Iterator[str]:
    """Where and how the program ran that was recorded, where the recorder says it."""
    environment = header.environment or {}
    device, attention = environment.get("device"), environment.get("attention")
    if not (header.source or {}).get("recorder") or not isinstance(device, str):
        return
    yield f"recorded on {device}" + (f", attention: {attention}" if isinstance(attention, str) else "")


def _opaque(calls: int) -> Iterator[str]:
    """Why calls were not judged although their lengths are there; once, however many there are."""
    if calls:
        yield (
            f"{calls} attention call{'s' if calls > 1 else ''} went to an attention function of the "
            "program's own, not the library's: what it does with its mask was not observed"
        )


def judgeable(call: Call) -> bool:
    """Whether some rule has what it needs: lengths or positions to compare, or a mask that was read. Lengths
    say nothing of a call whose attention function may have done anything with them.
    """
    a = call.attention
    if a.opaque:
        return False
    held = call.k is not None or call.ks is not None
    expected = call.q is not None and (call.cursor is not None or call.offsets is not None)
    return (
        (held and (call.m is not None or expected))
        or a.visible is not None
        or a.totals is not None
        or (a.rope is not None and call.offsets is not None)
        or (a.asked is not None and a.done is not None)
        or (a.mask is not UNSET and call.mask_q is not None and call.q is not None)
        or (call.kind == "recurrent" and a.offset is not None)
        or (a.cache is not None and call.entry.kind in EVENT_PHASES)
    )


def _holds_evidence(entry: Entry) -> bool:
    """Whether an entry without a call holds what a rule can judge."""
    if entry.output or entry.error or entry.refused or entry.dropped:
        return True
    return any(
        row.emitted is not None
        or row.done is not None
        or row.restored is not None
        or row.size is not None
        or row.finish is not None
        or row.offset is not None
        for row in entry.rows or ()
    )


def _placed(finding: Finding, number: int) -> Finding:
    """Where steps are not numbered, the entry's place in the file (from 1) says which one it was."""
    if finding.step is not None or not number:
        return finding
    return structs.replace(finding, evidence={**finding.evidence, "entry": number})


def _as_entry(header: Header) -> Entry:
    """The header's model as the entry that a recorder would have appended."""
    model = header.model
    assert model is not None
    return Entry(
        phase="model",
        name=model.name,
        architecture=model.architecture,
        config=model.config,
        layers=model.layers,
        tokens=model.tokens,
    )
