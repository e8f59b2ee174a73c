"""Names that a user gives for families and scenarios: plain, patterns as `gemma*`, several with commas."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from mlxdiag.errors import UsageError

MAGIC = "*?["


def pick(kind: str, known: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Those of `known` that are asked for, in the order of `known`; all where nothing is asked.

    Raises:
        UsageError: a name that is not known, with what was perhaps meant, or a pattern that fits nothing.
    """
    patterns = _patterns(asked)
    if asked and not patterns:
        raise UsageError(f"no {kind} is named")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"no {kind} {_meant(pattern, known)}; --list shows them all")
    return tuple(name for name in known if not patterns or any(fnmatchcase(name, p) for p in patterns))


def fitting(known: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Those names and patterns of `asked` that fit any of `known`."""
    return tuple(one for one in _patterns(asked) if any(fnmatchcase(name, one) for name in known))


def _patterns(asked: Sequence[str]) -> list[str]:
    return [part.strip() for value in asked for part in value.split(",") if part.strip()]


def _meant(name: str, known: Sequence[str]) -> str:
    if any(sign in name for sign in MAGIC):
        return f"fits {name!r}"
    close = difflib.get_close_matches(name, known, n=3)
    return f"{name!r}" + (f" (did you mean {' or '.join(close)}?)" if close else "")
