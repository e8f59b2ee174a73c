"""Every importer, and the one loop that hands them the records of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, Importer
from mlxdiag.traces.importers.mlxcel import Mlxcel
from mlxdiag.traces.importers.records import Record, records
from mlxdiag.traces.importers.text import lines_of
from mlxdiag.traces.types import Entry, Trace

IMPORTERS: tuple[type[Importer], ...] = (Mlxcel,)
"""A record belongs to the first that takes something from it, else to the first that knows it."""


class Imported(msgspec.Struct, frozen=True):
    """A trace, and how much of the log went into it."""

    trace: Trace
    taken: dict[str, int]
    """Records that something was taken from, by format."""
    passed: dict[str, int]
    """Records of a known format without anything for a trace."""
    unknown: int
    """Records of no known format."""


def read(logs: Iterable[tuple[str, bytes]], model: Entry | None = None) -> Imported:
    """The trace of these logs, read in the order given.

    Args:
        logs: name and content of each.
        model: the model entry of a config.json; without it the trace names what the log itself shows.

    Raises:
        UnreadableError: nothing in them is of a known format, or nothing of it goes into a trace.
    """
    draft = Draft(model)
    importers = [kind(draft) for kind in IMPORTERS]
    taken: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    unknown = 0
    names = []
    for name, data in logs:
        names.append(name)
        for record in records(lines_of(data)):
            owner, verdict = _offer(record, importers)
            if owner is None:
                unknown += 1
            elif verdict == KNOWN:
                passed[owner.name] += 1
            else:
                taken[owner.name] += 1
                draft.sources.setdefault(owner.name)
                draft.program = draft.program or owner.program
    for importer in importers:
        importer.close()
    if not draft.steps:
        raise UnreadableError(_nothing(names, passed, unknown))
    return Imported(draft.trace(), dict(taken), dict(passed), unknown)


def _offer(record: Record, importers: list[Importer]) -> tuple[Importer | None, int]:
    """Who took the record, else who knew it, with the verdict."""
    knower = None
    for importer in importers:
        verdict = importer.take(record)
        if verdict == TAKEN:
            return importer, TAKEN
        if verdict == KNOWN and knower is None:
            knower = importer
    return knower, KNOWN


def _nothing(names: list[str], passed: Counter[str], unknown: int) -> str:
    where = ", ".join(names) or "no log"
    if passed:
        known = ", ".join(f"{count} of {name}" for name, count in passed.items())
        return f"{where}: of a known format ({known}), but no line tells an offset, length, shape or token"
    formats = ", ".join(dict.fromkeys(kind.name for kind in IMPORTERS))
    return f"{where}: none of {unknown} lines is of a known format ({formats})"
