"""`mlxdiag inspect --follow`: findings as a trace grows, one by one, until its `end` line or Ctrl-C."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from mlxdiag.cli import verdict
from mlxdiag.cli.deliver import summarise
from mlxdiag.cli.settings import Settings
from mlxdiag.cli.streams import ReaderGone, colour, complain, put
from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.inspect.findings import Finding, Report
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.reports import github, json, text
from mlxdiag.reports.view import View
from mlxdiag.traces.reader import open_stream

FORMATS = ("text", "json", "github")
ENDINGS = ("MD902", "MD903")
"""What a trace without an end proves; a file that somebody stopped watching has merely not ended yet."""


def follow_trace(source: str, settings: Settings) -> int:
    """Show each finding once, as it comes; the exit code is that of what was seen.

    Raises:
        UsageError: an output file, or a format that only a finished trace can fill.
        UnreadableError: the file breaks; what came before was shown.
    """
    if settings.output is not None:
        raise UsageError("--follow writes to standard output as the trace grows: leave --output out")
    if settings.format not in FORMATS:
        raise UsageError(f"--follow can show {', '.join(FORMATS)}; {settings.format} needs a finished trace")
    with open_stream(source, follow=True) as stream:
        inspector = Inspector(stream.header, settings.select, settings.ignore, source=source)
        watch = Watch(inspector, source, settings)
        try:
            for entry in stream:
                watch.show(watch.inspector.feed(entry))
        except KeyboardInterrupt:
            complain("stopped following")
            watch.unfinished = True
        except ReaderGone:
            return watch.close()
        except UnreadableError:
            watch.close(truncated=True)
            raise
        return watch.close(stream.truncated)


class Watch:
    """What has been shown so far of one growing trace."""

    def __init__(self, inspector: Inspector, source: str, settings: Settings) -> None:
        self.inspector = inspector
        self.source = source
        self.settings = settings
        self.unfinished = False
        """Somebody stopped watching before the trace ended."""
        self.view = View(colour=colour(), width=shutil.get_terminal_size().columns if colour() else None)
        self._shown: set[tuple[object, ...]] = set()
        self._line = self._renderer()

    def show(self, findings: list[Finding]) -> None:
        """Raises ReaderGone when nobody reads any more."""
        for finding in findings:
            key = _key(finding)
            if key not in self._shown:
                self._shown.add(key)
                put(self._line(finding))

    def close(self, truncated: bool = False) -> int:
        """Show what only the end tells, and the counts; the exit code."""
        report = self.inspector.close(truncated=truncated)
        if self.unfinished:
            report.findings = [finding for finding in report.findings if finding.code not in ENDINGS]
        try:
            self.show(report.findings)
            if self.settings.format == "text":
                put("\n".join(text.closing_lines(report, self.view)))
            else:
                summarise([report])
        except ReaderGone:
            pass  # the verdict is the exit code, read or not
        for line in verdict.explanation([report], self.settings):
            complain(line)
        return verdict.exit_code([report], self.settings)

    def _renderer(self) -> Callable[[Finding], str]:
        if self.settings.format == "json":
            return lambda finding: json.encode({**json.plain(finding), "source": self.source}).decode()
        if self.settings.format == "github":
            return lambda finding: github.annotation(Report(source=self.source), finding, self.view)
        return lambda finding: "\n".join(text.finding_lines(finding, self.view)) + "\n\n"


def _key(finding: Finding) -> tuple[object, ...]:
    """Findings of equal calls are merged as they come, so a finding is known by its place, not its count."""
    return finding.code, finding.step, finding.seq, finding.family
