"""`tokens.jsonl`: what was emitted, as classes and labels, a line for each row of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from mlxdiag.traces.types import Trace

CLASSES = {"t": "text", "c": "control", "r": "reserved", "p": "pad", "e": "end of sequence", "0": "id zero"}


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens that one row emitted in one step."""

    step: int | None
    seq: str | None
    classes: str | None = None
    ids: list[int] | None = None
    """Labels that only say which tokens are equal."""
    finish: str | None = None
    drafted: int | None = None
    accepted: int | None = None


def lines(trace: Trace) -> Iterator[Line]:
    """Of a cleaned trace."""
    for entry in trace.entries:
        for row in entry.rows or ():
            if row.emitted or row.classes or row.ids or row.finish or row.drafted is not None:
                yield Line(entry.step, row.seq, row.classes, row.ids, row.finish, row.drafted, row.accepted)


def document(trace: Trace) -> bytes:
    """The member's content."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines(trace))


def in_words(trace: Trace) -> list[str]:
    """For each sequence: how many tokens of which class, and the first ones as they came."""
    classes: dict[str, str] = {}
    finishes: dict[str, str] = {}
    for line in lines(trace):
        name = line.seq or "the sequence"
        classes[name] = classes.get(name, "") + (line.classes or "")
        if line.finish:
            finishes[name] = line.finish
    return [_words(name, text, finishes.get(name)) for name, text in classes.items() if text]


def _words(name: str, text: str, finish: str | None) -> str:
    counted = ", ".join(f"{n} {CLASSES[c]}" for c, n in Counter(text).most_common())
    shown = text if len(text) <= 40 else text[:40] + "..."
    ended = f"; it ended by {finish}" if finish else ""
    return f"{name} emitted {len(text)} tokens ({counted}): `{shown}`{ended}"
