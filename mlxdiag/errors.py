"""What can go wrong, each with its exit code. A message says what, where and what to do about it."""

from __future__ import annotations

CLEAN = 0
FINDINGS = 1
USAGE = 2
UNREADABLE = 3
UNJUDGED = 4


class MlxdiagError(Exception):
    """Shown to the user as one line, without a traceback."""

    exit_code = USAGE


class UsageError(MlxdiagError):
    """A wrong option, an unknown name, or a file that would be overwritten."""

    exit_code = USAGE


class UnreadableError(MlxdiagError):
    """An artifact (trace, config, checkpoint, bundle) cannot be read, or says something impossible."""

    exit_code = UNREADABLE


class UnjudgedError(MlxdiagError):
    """Nothing could be compared: a backend is missing, or the model cannot be built."""

    exit_code = UNJUDGED
