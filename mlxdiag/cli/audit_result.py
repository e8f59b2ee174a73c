"""Hands an audit over: held to the baseline, rendered, with its scripts, and turned into the exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import Audit, Fault
from mlxdiag.audit.faults import baseline as baselines
from mlxdiag.audit.faults.against import Comparison
from mlxdiag.cli.deliver import write_file, write_result
from mlxdiag.cli.settings import Settings, refuse_overwriting
from mlxdiag.cli.streams import colour, complain
from mlxdiag.errors import CLEAN, FINDINGS, UNJUDGED, UsageError
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.formats import renderer
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.view import count


class Given(msgspec.Struct, kw_only=True):
    """What to do with an audit once there is one."""

    settings: Settings
    baseline: Path | None = None
    write_baseline: Path | None = None
    repros: Path | None = None
    unfold: bool = False
    held: baselines.Baseline | None = None

    def check(self) -> None:
        """Before the work, so that a long audit is not lost to a wrong name.

        Raises:
            UsageError: a file that would be overwritten, or a folder that cannot be made.
            UnreadableError: the baseline.
        """
        if self.baseline is not None:
            self.held = baselines.load(self.baseline)
        refuse_overwriting(self.write_baseline, self.settings.force)
        if self.repros is not None:
            try:
                self.repros.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"--repros: cannot make {self.repros}: {error.strerror}") from None


def finish(audit: Audit, given: Given, comparison: Comparison | None = None) -> int:
    """Write and print everything; the exit code."""
    settings = given.settings
    shown = as_shown(audit, given, comparison)
    code = exit_code(shown, settings)
    # A shard is wanted whatever is in it: the merged audit is what is judged.
    whole = code in (CLEAN, FINDINGS) or audit.shard is not None
    write_result(renderer(settings.format)(shown), settings.output if whole else None)
    summarise(shown, settings)
    if settings.output is not None and not whole:
        complain(f"{settings.output} was not written")
    if given.write_baseline is not None:
        write_file(given.write_baseline, baselines.dump(baselines.of(audit)))
        complain(f"{given.write_baseline}: accepts {count(len(audit.faults), 'fault')}")
    return code


def as_shown(audit: Audit, given: Given, comparison: Comparison | None = None) -> Shown:
    """What the renderers are given of one audit."""
    settings = given.settings
    difference = baselines.compare(given.held, audit) if given.held is not None else None
    visible = [fault for fault in audit.faults if selected(fault, settings)]
    terminal = settings.format == "text" and settings.output is None and colour()
    return Shown(
        audit=msgspec.structs.replace(audit, faults=visible),
        hidden=len(audit.faults) - len(visible),
        difference=difference,
        comparison=comparison,
        unfold=given.unfold,
        repros=str(given.repros) if given.repros is not None else "",
        colour=terminal,
        width=shutil.get_terminal_size().columns if terminal else None,
    )


def selected(fault: Fault, settings: Settings) -> bool:
    """By the code of its headline."""
    return selected_code(fault.code, settings)


def selected_code(code: str, settings: Settings) -> bool:
    """Whether --select and --ignore leave a rule."""
    if settings.select and not code.startswith(settings.select):
        return False
    return not (settings.ignore and code.startswith(settings.ignore))


def exit_code(shown: Shown, settings: Settings) -> int:
    """1 for faults, or what differs from the baseline; 4 where nothing was judged, or not all could be."""
    failing = failures(shown)
    if settings.expect is None and (failing or (settings.fail_on == "warning" and stale(shown))):
        return FINDINGS
    if words.nothing_judged(shown.audit) or any(map(words.unfinished, shown.audit.cells)):
        return UNJUDGED
    if settings.expect is not None and {fault.code for fault in failing_faults(shown)} != set(
        settings.expect
    ):
        return FINDINGS
    return CLEAN


def failures(shown: Shown) -> bool:
    if shown.difference is not None:
        return not shown.difference.clean
    return bool(shown.audit.faults)


def failing_faults(shown: Shown) -> list[Fault]:
    """Those that no baseline accepts, or not in all of their cells."""
    found = shown.difference
    if found is None:
        return list(shown.audit.faults)
    return [f for f in shown.audit.faults if f.id not in found.accepted or f.id in found.new_cells]


def stale(shown: Shown) -> list[str]:
    """Notes that count as warnings: entries of `causes.yaml` whose line the library no longer has."""
    return [note for note in shown.audit.notes if note.startswith("stale ")]


def summarise(shown: Shown, settings: Settings) -> None:
    """For whoever watches; the only place that tells a time."""
    audit = shown.audit
    complain(f"{words.verdict(shown)}; {words.coverage(audit)}; {words.tally(audit)}; {audit.seconds:.1f} s")
    if shown.difference is not None and settings.format != "text":
        for line in shown.difference.lines():
            complain(f"baseline: {line}")
    if settings.expect is not None:
        seen = {fault.code for fault in failing_faults(shown)}
        expected = set(settings.expect)
        told = ", ".join(sorted(seen)) or "no fault"
        wanted = ", ".join(sorted(expected)) or "no fault"
        complain(f"as expected: {told}" if seen == expected else f"expected {wanted}, seen {told}")
    lost = sum(map(words.unfinished, audit.cells))
    if lost:
        complain(f"{count(lost, 'cell')} without a verdict, by a fault of mlxdiag: see the reason")
    elif words.nothing_judged(audit):
        complain("could not judge: no cell gave a verdict")
