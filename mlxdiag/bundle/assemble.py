"""A bundle, part by part: read, cleaned, reproduced, described, scanned, packed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag import __version__
from mlxdiag.bundle.collect import environment, inputs, modelcard, summary, tokenlines
from mlxdiag.bundle.collect.projects import Project
from mlxdiag.bundle.detect import detector, facts
from mlxdiag.bundle.pack import archive, parts
from mlxdiag.bundle.redact import ledger
from mlxdiag.bundle.redact import trace as traces
from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.lines import Lines, people
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.pseudonym import Pseudonyms
from mlxdiag.bundle.redact.records import COMMAND
from mlxdiag.bundle.redact.rules import what
from mlxdiag.bundle.redact.vocabulary import Vocabulary
from mlxdiag.bundle.reproduce import controls, reproduction, serving
from mlxdiag.inspect.findings import Report, codes
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.reports.json import document, pretty
from mlxdiag.traces.types import Entry, Header, Trace

NAME_IN_HINTS = "bundle.zip"
"""What findings call the file, in the commands that they propose."""
_ERROR = re.compile(r".*(?:Error|Exception|libc\+\+abi|Fatal error|panicked at)\b.*:")
_NUMBERED = re.compile(r" *\d+\| ")
MOST_COMMANDS = 5


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for."""

    trace: Path
    project: Project
    logs: tuple[Path, ...] = ()
    model: Path | None = None
    with_tokens: bool = False
    keep: tuple[str, ...] = ()
    """Words that stay although no list knows them, as a model's public name."""
    replay: bool = True
    drop: bool = False
    """Leave out the lines of logs that the detector refuses, in place of refusing the bundle."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle in memory."""

    members: dict[str, bytes]
    data: bytes
    """The zip."""
    hits: tuple[detector.Hit, ...]
    """What the detector found in it; where there is anything, the zip must not be written."""
    account: summary.Account
    report: Report
    warnings: tuple[str, ...] = ()


def make(order: Order, progress: Callable[[str], None] = lambda _: None) -> Made:
    """Collect, clean and pack. Nothing is written, and no input is changed.

    Raises:
        UnreadableError: the trace, a log or the model's config cannot be read at all.
    """
    source, whole = _read(order.trace)
    logs = {f"logs/{number}.log": inputs.read_log(path) for number, path in enumerate(order.logs, 1)}
    taken = Ledger()
    machine = facts.of_this_machine()
    cleaner = _cleaner(order, taken, machine, source.trace, logs)
    members: dict[str, bytes] = {}
    missing: dict[str, str] = {}

    taken.member = "trace.yaml"
    redactor = traces.Redactor(cleaner, with_tokens=order.with_tokens)
    trace = redactor.trace(source.trace)
    members["trace.yaml"] = traces.text(trace)
    report = _judge(trace)
    members["findings.json"] = pretty(document([report])).encode()
    members["tokens.jsonl"] = tokenlines.document(trace)
    if not members["tokens.jsonl"]:
        del members["tokens.jsonl"]
        missing["tokens.jsonl"] = "the trace holds no emitted token"

    taken.member = "environment.json"
    # Before a library is loaded, which sets variables of its own.
    told = environment.document(trace.header.environment or {}, trace.header.source or {})
    taken.member = "model.json"
    card = modelcard.of_trace(trace)
    if order.model is not None:
        library = serving.of(trace.header.environment).name
        card = modelcard.of_directory(order.model, redactor, library)
    members["model.json"] = pretty(card).encode()

    cleaned = {name: _log(name, lines, cleaner) for name, lines in logs.items()}
    if not logs:
        missing["logs/"] = "no log was given: --log FILE"
    dtype = card.get("dtype")
    found = reproduction.make(trace, report, order.replay, progress, dtype=dtype)
    members.update(found.members)
    missing.update(found.missing)
    told["here"] = environment.with_devices(told["here"])
    members["environment.json"] = pretty(told).encode()
    members["controls.json"] = pretty(controls.document(found.controls, dtype)).encode()

    notes = (*source.notes, *_same_faults(whole, report))
    account = summary.Account(
        trace=trace,
        report=report,
        environment=told,
        model=card,
        controls=found.controls,
        reproduction=found.sentences,
        notes=notes,
        short=found.short,
        headline=found.headline,
        asked=(*order.keep, *(["token ids"] if order.with_tokens else [])),
    )
    made = _finish(order, members, missing, cleaned, cleaner, machine, account)
    return msgspec.structs.replace(made, warnings=source.warnings)


def _cleaner(
    order: Order, taken: Ledger, machine: facts.Facts, trace: Trace, logs: dict[str, list[str]]
) -> Messages:
    paths = [order.trace, *order.logs, *([order.model / "config.json"] if order.model else [])]
    pseudonyms = Pseudonyms(inputs.fingerprint(paths))
    vocabulary = Vocabulary(order.keep)
    names = people([*(line for lines in logs.values() for line in lines), *_texts(trace)])
    learnt = {name for name in names if not vocabulary.knows(name)}
    return Messages(taken, vocabulary, pseudonyms, [*machine.names(), *learnt])


def _texts(trace: Trace) -> list[str]:
    """Free texts of a trace, which may show a path and so a name."""
    found = [str(msgspec.to_builtins(trace.header))]
    for entry in trace.entries:
        found += [text for text in (entry.note, entry.refused) if text]
        found += [text for text in (entry.error.text, entry.error.where) if text] if entry.error else []
    return found


def _log(name: str, lines: list[str], cleaner: Messages) -> list[str]:
    cleaner.ledger.member = name
    return list(Lines(cleaner).clean(lines))


def _read(path: Path) -> tuple[inputs.Source, Report]:
    """The trace, cut to what goes in, and the report on the whole of it."""
    judges: list[Inspector] = []

    def judge(header: Header) -> Callable[[Entry], object]:
        judges.append(Inspector(header, source=NAME_IN_HINTS))
        return judges[0].feed

    source = inputs.read_trace(path, judge)
    whole = judges[0].close(truncated=source.truncated)
    return inputs.excerpt(source, path, _first_step(whole)), whole


def _judge(trace: Trace) -> Report:
    inspector = Inspector(trace.header, source=NAME_IN_HINTS)
    for entry in trace.entries:
        inspector.feed(entry)
    return inspector.close(truncated=trace.truncated)


def _first_step(report: Report) -> int | None:
    """The step of the first error, or of the first finding."""
    steps = [(f.severity != "error", f.step) for f in report.findings if f.step is not None]
    return min(steps)[1] if steps else None


def _same_faults(whole: Report, left: Report) -> list[str]:
    """Says so where the cleaning, or the excerpt, has cost a finding."""
    lost = codes(whole.findings) - codes(left.findings)
    return [f"findings that rest on what was left out: {', '.join(sorted(lost))}"] if lost else []


def _finish(
    order: Order,
    members: dict[str, bytes],
    missing: dict[str, str],
    logs: dict[str, list[str]],
    cleaner: Messages,
    machine: facts.Facts,
    account: summary.Account,
) -> Made:
    """Describe, scan and pack; where that was asked for, without lines of logs that the detector refuses."""
    while True:
        whole, told = _described(order, members, missing, logs, cleaner, account)
        hits = detector.scan(
            whole,
            machine,
            removed=cleaner.ledger.originals,
            asked=order.keep,
            raw_ids=order.with_tokens,
        )
        refused = {(hit.member, hit.line) for hit in hits if hit.member in logs}
        if not order.drop or not refused:
            return Made(
                members=whole, data=archive.pack(whole), hits=tuple(hits), account=told, report=account.report
            )
        for name, lines in logs.items():
            kept = [line for number, line in enumerate(lines, 1) if (name, number) not in refused]
            cleaner.ledger.member = name
            cleaner.ledger.take("refused-line", count=len(lines) - len(kept))
            logs[name] = kept


def _described(
    order: Order,
    members: dict[str, bytes],
    missing: dict[str, str],
    logs: dict[str, list[str]],
    cleaner: Messages,
    account: summary.Account,
) -> tuple[dict[str, bytes], summary.Account]:
    """The members with the logs and with what tells of them: redaction.json, bundle.json, summary.md."""
    whole = dict(members)
    for name, lines in logs.items():
        whole[name] = "".join(f"{line}\n" for line in lines).encode()
    removed = cleaner.ledger.report(what)
    redaction = ledger.document(
        cleaner.ledger, what, asked_for=_asked(order), hashes=_hashes(cleaner.pseudonyms)
    )
    whole["redaction.json"] = pretty(redaction).encode()
    names = frozenset({*whole, "summary.md", "bundle.json", archive.MANIFEST})
    listed = parts.listed(names, missing)
    whole["bundle.json"] = pretty(_index(order, listed)).encode()
    texts = [_NUMBERED.sub("", line, count=1) for lines in logs.values() for line in lines]
    told = msgspec.structs.replace(
        account,
        parts=listed,
        removed=tuple(removed),
        logs=tuple(logs),
        commands=tuple(text for text in texts if COMMAND.match(text))[:MOST_COMMANDS],
        errors=tuple(dict.fromkeys(text.strip() for text in texts if _ERROR.match(text))),
    )
    whole["summary.md"] = summary.render(told, order.project, __version__).encode()
    return whole, told


def _index(order: Order, listed: tuple[parts.Part, ...]) -> dict[str, Any]:
    return {
        "schema": archive.SCHEMA,
        "mlxdiag": __version__,
        "for": order.project.name,
        "asked_for": _asked(order),
        "parts": msgspec.to_builtins(listed),
    }


def _asked(order: Order) -> dict[str, Any]:
    """What the reporter asked to put in by name."""
    return {"tokens": order.with_tokens, "words": list(order.keep)}


def _hashes(pseudonyms: Pseudonyms) -> str:
    if not pseudonyms.used:
        return "none was met"
    kept = "is kept on the reporter's machine" if pseudonyms.lasting else "was not kept"
    return f"replaced by keyed labels; the key {kept} and is not in here"
