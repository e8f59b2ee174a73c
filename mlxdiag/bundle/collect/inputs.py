"""What a bundle is made from: read once, never written to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.types import Entry, Header, Trace

MOST_ENTRIES = 2_000
"""A trace of up to as many entries goes into the bundle whole."""
EXCERPT = 1_000
"""Of a longer one this many go, without a gap, with what announces its models."""
LONGEST_LINE = 1 << 20
"""Characters of a log's line that are read; a longer one is a request or an answer, and stays out anyway."""
_BLOCK = 1 << 20


class Source(msgspec.Struct, frozen=True):
    """A trace as far as it could be read."""

    header: Header
    entries: list[Entry]
    """Empty where there are more than a bundle holds: then `excerpt` reads those again that it takes."""
    steps: tuple[int | None, ...]
    """Of every entry that could be read."""
    truncated: bool = False
    notes: tuple[str, ...] = ()
    """Why it ends early, and what of it is left out."""
    warnings: tuple[str, ...] = ()

    @property
    def trace(self) -> Trace:
        """What of it is here."""
        return Trace(self.header, self.entries, (), self.truncated)


def read_trace(path: Path, judge: Callable[[Header], Callable[[Entry], Any]]) -> Source:
    """Half a trace is better than none: what comes before the first broken entry.

    `judge` is given the header, and what it returns is given each entry; of a long trace none is kept.

    Raises:
        UnreadableError: nothing of it can be read.
        UsageError: it is a bundle already, or a pipe.
    """
    from mlxdiag.bundle.pack import opening

    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(
            f"{path} is a pipe or a device, and a trace is read twice here: write it to a file first"
        )
    if opening.is_bundle(path):
        raise UsageError(f"{path} is a bundle already: mlxdiag verify {path}")
    entries: list[Entry] = []
    steps: list[int | None] = []
    notes: list[str] = []
    with open_stream(path) as stream:
        feed = judge(stream.header)
        broken: UnreadableError | None = None
        try:
            for entry in stream:
                feed(entry)
                steps.append(entry.step)
                if len(steps) <= MOST_ENTRIES:
                    entries.append(entry)
        except UnreadableError as error:
            broken = error
        if broken is not None:
            if not steps:
                raise broken
            notes.append(f"the trace can be read up to its entry {len(steps)}; what comes after is broken")
        if stream.truncated:
            notes.append("the trace was cut off in the middle of its last line, as by a crash")
        return Source(
            stream.header,
            entries if len(entries) == len(steps) else [],
            tuple(steps),
            stream.truncated or broken is not None,
            tuple(notes),
            tuple(stream.warnings),
        )


def excerpt(source: Source, path: Path, step: int | None) -> Source:
    """Of a long trace its beginning where `step` is in that, else what lies around `step`, else its end."""
    total = len(source.steps)
    if total <= MOST_ENTRIES:
        return source
    start = total - EXCERPT
    if step is not None and step in source.steps:
        at = source.steps.index(step)
        start = 0 if at < EXCERPT else min(start, at - EXCERPT // 2)
    kept = list(_window(path, start))
    note = f"of {total} entries {EXCERPT} are here, from number {start + 1} on"
    return msgspec.structs.replace(source, entries=kept, notes=(*source.notes, note))


def _window(path: Path, start: int) -> Iterator[Entry]:
    """Entries from `start` on, and before them what announces the models."""
    with open_stream(path) as stream:
        for number, entry in zip(range(start + EXCERPT), stream, strict=False):
            if number >= start or entry.kind == "model":
                yield entry


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
