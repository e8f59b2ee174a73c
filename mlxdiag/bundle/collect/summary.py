"""`summary.md`: facts in a project's own order; what only a person knows is marked REQUIRED."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from mlxdiag.bundle.collect import listing, tokenlines
from mlxdiag.bundle.collect.calls import table
from mlxdiag.bundle.collect.projects import REQUIRED, Project
from mlxdiag.bundle.pack.parts import Part
from mlxdiag.bundle.redact.ledger import Removed
from mlxdiag.bundle.reproduce import serving
from mlxdiag.bundle.reproduce.controls import EDGE, Control, in_words
from mlxdiag.inspect.findings import SEVERITIES, Finding, Report
from mlxdiag.reports import view
from mlxdiag.traces.types import Trace

MOST_FINDINGS = 6
MOST_ERRORS = 3
MOST_TABLES = 2

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
_GAP = re.compile(r"\n{3,}")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a summary tells of, cleaned."""

    trace: Trace
    report: Report
    environment: Mapping[str, Any]
    model: Mapping[str, Any]
    controls: tuple[Control, ...] = ()
    asked: tuple[str, ...] = ()
    """What the reporter asked to put in although it would be left out."""
    headline: Finding | None = None
    """The finding that the reproduction shows."""
    short: tuple[str, ...] = ()
    """The whole in a few sentences."""
    reproduction: tuple[str, ...] = ()
    """Sentences about repro/, or why there is none."""
    commands: tuple[str, ...] = ()
    """Command lines found in the logs."""
    errors: tuple[str, ...] = ()
    """Error lines found in the logs."""
    logs: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    removed: tuple[Removed, ...] = ()
    notes: tuple[str, ...] = ()


def render(account: Account, project: Project, version: str) -> str:
    """The file."""
    lines = [f"# {title(account)}", ""]
    if project.notice is not None:
        lines += [f"> **{project.name}**: {project.notice}", ""]
    lines += [
        f"Facts collected by mlxdiag {version} from a recorded trace. {_left_out(account)} Nothing was sent "
        "anywhere.",
        "",
        *(f"- {line}" for line in account.short),
        "",
    ]
    for heading, part in project.sections:
        body = list(PARTS[part](account))
        lines += [f"## {heading}", "", *body, ""]
    lines += ["## To be filled in", "", *(f"- {REQUIRED}: {what}" for what in project.required), ""]
    if project.page is not None:
        lines += [f"Issues are opened by a person, at {project.page}", ""]
    lines += ["## In this bundle", "", *_bundle(account), ""]
    return _GAP.sub("\n\n", "\n".join(lines))


def _left_out(account: Account) -> str:
    if account.asked:
        asked = ", ".join(account.asked)
        return f"Prompts, paths, addresses and keys were left out; put in on request: {asked}."
    return "No prompt or answer, no token id of either, no private name, path, address or key is in here."


def title(account: Account) -> str:
    """One line: which model, which fault, where."""
    name = account.model.get("name") or account.model.get("architecture") or "unknown model"
    found = account.headline or _worst(account.report)
    if found is None:
        return f"{name}: no rule fired on this trace"
    where = view.place(found)
    if found.severity == "info":
        return f"{name}: no fault found; noted: {found.name.replace('-', ' ')} ({found.code}), {where}"
    return f"{name}: {found.name.replace('-', ' ')} ({found.code}), {where}"


def _worst(report: Report) -> Finding | None:
    """The first error by step: later ones are usually what came of it."""
    ranked = sorted(
        report.findings,
        key=lambda f: (_rank(f), f.rests_on == "tokens", f.step if f.step is not None else 1 << 60),
    )
    return ranked[0] if ranked else None


def _rank(finding: Finding) -> int:
    """Errors first."""
    return -SEVERITIES.index(finding.severity)


def _happened(account: Account) -> Iterator[str]:
    yield f"- {REQUIRED}: in one or two sentences of your own, what you did and what you saw."
    source = account.trace.header.source or {}
    program = " ".join(str(source[key]) for key in ("program", "version") if source.get(key))
    scheduler = account.trace.header.scheduler
    settings = msgspec.to_builtins(scheduler) if scheduler is not None else {}
    if program:
        yield f"- Program: {program}"
    if source.get("inferred"):
        yield f"- Inferred by the importer, not read from a log: {', '.join(map(str, source['inferred']))}"
    if settings:
        yield "- Scheduler: " + ", ".join(f"{key} {value}" for key, value in settings.items())
    yield f"- Recorded: {view.coverage(account.report.summary)}"
    for words in tokenlines.in_words(account.trace)[:MOST_FINDINGS]:
        yield f"- {words}"
    for entry in account.trace.entries:
        if entry.error is not None and entry.error.text:
            yield f"- Step {entry.step} ended in an error: `{entry.error.text}`"
    for text in account.errors[:MOST_ERRORS]:
        yield f"- In the log: `{text}`"
    for note in account.notes:
        yield f"- {note}"


def _finding(account: Account) -> Iterator[str]:
    findings = sorted(account.report.findings, key=_rank)
    if not findings:
        yield view.verdict(account.report)
        return
    for finding in findings[:MOST_FINDINGS]:
        yield f"**{finding.severity} {finding.code} {finding.name}**, {view.place(finding)}"
        yield ""
        yield finding.message + "."
        yield ""
        for cause in finding.cause:
            yield f"- because: {cause}"
        yield f"- rests on {view.RESTS_ON[finding.rests_on]}"
        yield ""
    more = len(findings) - MOST_FINDINGS
    if more > 0:
        yield f"and {more} more in findings.json"
        yield ""
    loud = [f.step for f in findings if f.severity != "info" and f.step is not None]
    for step in sorted(set(loud))[:MOST_TABLES]:
        yield from table(account.trace, step)


def _reproduce(account: Account) -> Iterator[str]:
    library = serving.of(account.trace.header.environment)
    if any(part.name.endswith(".py") and part.there for part in account.parts):
        yield f"On any machine with {library.needs}, without model, prompt or mlxdiag:"
        yield ""
        yield "```sh"
        yield f"pip install {library.packages}"
        yield "unzip bundle.zip -d bundle && cd bundle"
        for part in account.parts:
            if part.name.endswith(".py") and part.there:
                yield f"python {part.name}"
        yield "```"
        yield ""
    yield from account.reproduction
    yield ""
    yield f"The recorded schedule itself, with mlxdiag and {library.name}, without model or prompt:"
    yield ""
    yield "```sh"
    yield f"pip install mlxdiag {library.packages}"
    yield "mlxdiag inspect bundle.zip    # the findings, from the numbers alone"
    yield "mlxdiag replay bundle.zip     # the same schedule through real model code"
    yield "```"


def _expected(account: Account) -> Iterator[str]:
    yield (
        "Every query attends exactly the positions that the model's config gives it, and the logits of a "
        "prompt fed in pieces are those of the same prompt fed at once."
    )
    worst = account.headline or _worst(account.report)
    if worst is not None and worst.severity != "info":
        yield ""
        yield f"Seen instead: {worst.message}."


def _tried(account: Account) -> Iterator[str]:
    if not account.controls:
        yield "Nothing was tried automatically (see the list of parts)."
        return
    yield "| tried | result | what was seen |"
    yield "|---|---|---|"
    for what, result, seen in _alike(account.controls):
        yield f"| {_cell(what)} | {result} | {_cell(seen)} |"


def _alike(controls: tuple[Control, ...]) -> Iterator[tuple[str, str, str]]:
    """Neighbours of one kind with the same outcome as one line; only numbers may differ, as in a crash."""

    def outcome(control: Control) -> tuple[str, str, str]:
        return control.what, control.result, _NUMBER.sub("#", _seen(control))

    for (_, result, _), group in groupby(controls, key=outcome):
        several = list(group)
        told = list(dict.fromkeys(map(_seen, several)))
        seen = told[0] if len(told) == 1 else f"{told[-1]} (of {several[-1].value}; the others alike)"
        yield in_words(*several), "-" if several[0].name == EDGE else f"**{result}**", seen


def _seen(control: Control) -> str:
    return control.reason or ", ".join(control.codes) or "no rule fired"


def _command(account: Account) -> Iterator[str]:
    if not account.commands:
        yield f"- {REQUIRED}: the exact command. None was found in the logs given with `--log`."
        return
    yield "As found in the logs, cleaned; what stands in brackets was taken out:"
    yield ""
    yield "```sh"
    yield from account.commands
    yield "```"


def _logs(account: Account) -> Iterator[str]:
    if not account.logs:
        yield f"- {REQUIRED}: the log around the fault. `mlxdiag bundle --log FILE` puts it in here, cleaned."
        return
    yield "Cleaned, with the line numbers of the originals: " + ", ".join(
        f"`{name}`" for name in account.logs
    )


def _boxes(*labels: str) -> Iterator[str]:
    yield f"{REQUIRED}: tick one."
    yield ""
    for label in labels:
        yield f"- [ ] {label}"


def _named_version(account: Account) -> Iterator[str]:
    source = account.trace.header.source or {}
    yield f"- {REQUIRED}: version string and compiler"
    if source.get("version"):
        yield f"- The trace says: {source.get('program') or 'version'} {source['version']}"


def _bundle(account: Account) -> Iterator[str]:
    for part in account.parts:
        yield f"- `{part.name}`: {part.what}" if part.there else f"- `{part.name}`: missing, {part.reason}"
    yield ""
    if account.removed:
        total = sum(one.count for one in account.removed)
        rules = ", ".join(f"{one.rule} {one.count}" for one in account.removed)
        yield f"Taken out before it was written: {total} ({rules}); see redaction.json."
    else:
        yield "Nothing had to be taken out; see redaction.json."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PARTS: dict[str, Callable[[Account], Iterator[str]]] = {
    "happened": _happened,
    "finding": _finding,
    "reproduce": _reproduce,
    "expected": _expected,
    "tried": _tried,
    "model": lambda account: listing.model(account.model),
    "environment": lambda account: listing.environment(account.environment),
    "command": _command,
    "logs": _logs,
    "whom": lambda _: iter([f"- {REQUIRED}: see the list in the project's template"]),
    "scripts": lambda _: _boxes("The official example scripts", "My own modified scripts"),
    "tasks": lambda _: _boxes(
        "An officially supported task in the `examples` folder (such as GLUE/SQuAD, ...)",
        "My own task or dataset (give details below)",
    ),
    "version": _named_version,
}
"""What can stand under a heading."""
