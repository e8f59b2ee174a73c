"""Standard output and standard error: results on the one, everything else on the other."""

from __future__ import annotations

import io
import os
import sys

from mlxdiag.errors import UsageError
from mlxdiag.reports.escape import printable


class ReaderGone(Exception):
    """Whoever read standard output has closed it, as `head` does."""


def put(text: str) -> None:
    """Write a result to standard output.

    Raises:
        ReaderGone: the pipe was closed. What was judged stays judged: the exit code is the verdict.
        UsageError: it cannot be written, as on a full disk.
    """
    try:
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        raise ReaderGone from None
    except OSError as error:
        _silence_stdout()
        raise UsageError(f"cannot write standard output: {error.strerror}") from None


def complain(line: str) -> None:
    """One line on standard error, named for the program, whatever the text holds."""
    try:
        sys.stderr.write(f"mlxdiag: {printable(line)}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  lives as long as the process


def unbreakable_output() -> None:
    """Show escapes where a log that is not UTF-8 lacks a letter; write nowhere where a stream is closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Empty standard output before the interpreter does, which would complain about a closed pipe."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()


def colour() -> bool:
    """True where text goes to a terminal that shows colour; NO_COLOR and TERM=dumb say no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
