"""What a bundle is made from: read once, never written to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.types import Entry, Trace

MOST_ENTRIES = 2_000
"""Of a longer trace this many go into the bundle, without a gap, with what announces its models."""
LONGEST_LINE = 1 << 20
"""Characters of a log's line that are read; a longer one is a request or an answer, and stays out anyway."""
_BLOCK = 1 << 20


class Source(msgspec.Struct, frozen=True):
    """A trace as far as it could be read."""

    trace: Trace
    notes: tuple[str, ...] = ()
    """Why it ends early, and what of it is left out."""
    warnings: tuple[str, ...] = ()


def read_trace(path: Path) -> Source:
    """Half a trace is better than none: what comes before the first broken entry.

    Raises:
        UnreadableError: nothing of it can be read.
        UsageError: it is a bundle already.
    """
    from mlxdiag.bundle.pack import opening

    if opening.is_bundle(path):
        raise UsageError(f"{path} is a bundle already: mlxdiag verify {path}")
    entries: list[Entry] = []
    notes: list[str] = []
    with open_stream(path) as stream:
        broken: UnreadableError | None = None
        try:
            entries.extend(stream)
        except UnreadableError as error:
            broken = error
        if broken is not None:
            if not entries:
                raise broken
            notes.append(f"the trace can be read up to its entry {len(entries)}; what comes after is broken")
        if stream.truncated:
            notes.append("the trace was cut off in the middle of its last line, as by a crash")
        trace = Trace(stream.header, entries, (), stream.truncated or broken is not None)
        return Source(trace, tuple(notes), tuple(stream.warnings))


def excerpt(source: Source, step: int | None) -> Source:
    """Of a long trace its beginning where `step` is in that, else what lies around `step`, else its end."""
    entries = source.trace.entries
    if len(entries) <= MOST_ENTRIES:
        return source
    at = next((i for i, entry in enumerate(entries) if step is not None and entry.step == step), None)
    start = len(entries) - MOST_ENTRIES
    if at is not None:
        start = 0 if at < MOST_ENTRIES else min(start, at - MOST_ENTRIES // 2)
    kept = [entry for entry in entries[:start] if entry.kind == "model"]
    kept += entries[start : start + MOST_ENTRIES]
    note = f"of {len(entries)} entries {MOST_ENTRIES} are here, from number {start + 1} on"
    trace = Trace(source.trace.header, kept, (), source.trace.truncated)
    return Source(trace, (*source.notes, note), source.warnings)


def read_log(path: Path) -> list[str]:
    """The lines of a log. Raises UnreadableError where it cannot be read, or is packed."""
    from mlxdiag.traces.importers.text import Packed, lines_of

    try:
        with path.open("rb") as file:
            return [line[:LONGEST_LINE] for line in lines_of(file)]
    except Packed as error:
        raise UnreadableError(f"{path}: compressed ({error}); unpack it first") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableError(f"{path}: cannot be read: {reason}") from None


def fingerprint(paths: list[Path]) -> bytes:
    """A digest of the inputs' bytes, which makes the labels of one bundle its own."""
    digest = hashlib.sha256()
    for path in paths:
        for block in _blocks(path):
            digest.update(block)
        digest.update(b"\0")
    return digest.digest()


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror}") from None
