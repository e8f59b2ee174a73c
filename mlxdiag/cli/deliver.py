"""Hands a result over: rendered, to standard output or to a file, and turned into the exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mlxdiag.cli import verdict
from mlxdiag.cli.settings import Settings
from mlxdiag.cli.streams import ReaderGone, colour, complain, put
from mlxdiag.errors import CLEAN, FINDINGS, MlxdiagError, UsageError
from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Report
from mlxdiag.reports.formats import renderer
from mlxdiag.reports.locate import lines_of_steps
from mlxdiag.reports.view import View, coverage, tally

NOTHING: Mapping[str | None, Call] = MappingProxyType({})


def deliver(
    reports: Sequence[Report],
    settings: Settings,
    failures: Sequence[MlxdiagError] = (),
    drawn: Mapping[str | None, Call] = NOTHING,
) -> int:
    """Show `reports`, then the errors that ended some of them early; the exit code.

    `drawn`: per source, the call whose mask the text format draws.

    A file is written only when every trace was read and judged: half a result goes to standard output.
    """
    code = verdict.exit_code(reports, settings) if reports else CLEAN
    whole = code in (CLEAN, FINDINGS) and not failures
    target = settings.output if whole else None
    if reports:
        write_result(renderer(settings.format)(reports, _view(reports, settings, target, drawn)), target)
    if target or settings.format != "text":
        summarise(reports)
    for line in [] if failures else verdict.explanation(reports, settings):
        complain(line)
    for failure in failures:
        complain(f"error: {failure}")
    if settings.output and not whole:
        complain(f"{settings.output} was not written")
    return max((failure.exit_code for failure in failures), default=code)


def write_result(text: str, target: Path | None) -> None:
    """To the file if there is one, whole or not at all; else to standard output.

    Raises UsageError for a file that cannot be written; the result, which may have taken hours, is then on
    standard output.
    """
    failed = None
    if target is not None:
        try:
            write_file(target, text)
            return
        except UsageError as error:
            failed = error
    with contextlib.suppress(ReaderGone):
        put(text)  # `head` may have read enough; the exit code is still the verdict
    if failed is not None:
        raise failed


def write_file(path: Path, text: str) -> None:
    """A text, as `write_bytes` writes."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside the target and rename, so that nobody sees half a file.

    Raises:
        UsageError: the folder or the file cannot be written.
    """
    import tempfile  # needed for files only, and slow to import

    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device: nothing to overwrite
            return
        with tempfile.NamedTemporaryFile(
            dir=path.absolute().parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(data)
        os.chmod(file.name, 0o666 & ~_umask())
        os.replace(file.name, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def summarise(reports: Sequence[Report]) -> None:
    """A line per trace on standard error, for whoever watches a machine format go by."""
    for report in reports:
        complain(f"{report.source or 'trace'}: {tally(report.summary)}; {coverage(report.summary)}")


def _view(
    reports: Sequence[Report], settings: Settings, target: Path | None, drawn: Mapping[str | None, Call]
) -> View:
    terminal = settings.format == "text" and target is None and colour()
    return View(
        colour=terminal,
        width=shutil.get_terminal_size().columns if terminal else None,
        lines=_lines(reports) if settings.format in ("sarif", "github") else {},
        fail_on=settings.fail_on,
        drawn=drawn,
    )


def _lines(reports: Sequence[Report]) -> dict[str, dict[int, int]]:
    """Line numbers, looked up only for the formats that point at lines."""
    return {
        report.source: lines_of_steps(
            Path(report.source), {f.step for f in report.findings if f.step is not None}
        )
        for report in reports
        if report.source
    }


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
