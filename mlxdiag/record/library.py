"""Recording a part of one's own program: `with mlxdiag.recording("trace.yaml"):`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxdiag.errors import UsageError
from mlxdiag.record.hook import Finder
from mlxdiag.record.options import LEVELS, Options


@contextmanager
def recording(
    path: str | os.PathLike[str],
    *,
    level: str = "shapes",
    ring: int = 0,
    tokens: bool = False,
    force: bool = False,
) -> Iterator[Path]:
    """See `mlxdiag.recording`."""
    from mlxdiag.record.session import Session

    target = Path(os.path.abspath(path))
    if level not in LEVELS:
        raise UsageError(f"level {level!r}: must be one of {', '.join(LEVELS)}")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target}: is no file")
    if target.exists() and not force:
        raise UsageError(f"{target}: exists already; force=True overwrites it")
    target.unlink(missing_ok=True)
    session = Session(Options(target, level, ring, tokens))
    finder = Finder(session.imported)
    session.watch_loaded()
    sys.meta_path.insert(0, finder)
    try:
        yield target
    finally:
        sys.meta_path.remove(finder)
        session.close()
