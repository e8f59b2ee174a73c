"""Markdown, for the documents and for a job summary: every row, every difference, every reason."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.audit.across.cell import Across
from mlxdiag.inspect.rules.md4.parity import MEANINGS as KINDS
from mlxdiag.reports.across import words
from mlxdiag.reports.escape import markdown as safe
from mlxdiag.reports.markdown import table

METHOD = (
    "Of each family one tiny model with random float32 weights is built in transformers and saved; config"
    " and names of weights are put into the form that is published, and mlx-lm's own loader reads it "
    "strictly, so that no weight is missing or left over. The same tokens run through the same schedules "
    "in both, and logits are compared at every position, in units of their spread. What is beyond the "
    "tolerance, which comes from the noise measured on both models, is traced to the first layer and the "
    "first value that differ; a query that sees other keys is held against what the config means. "
    "`mlxdiag replay TRACE --backend mlx,torch` does the same for a recorded schedule, and with `--model "
    "DIR` for a checkpoint."
)


def render(across: Across) -> str:
    """The whole document."""
    return "\n".join(_lines(across)).rstrip() + "\n"


def _lines(across: Across) -> Iterator[str]:
    yield f"# {safe(words.subject(across))}\n"
    said = (words.verdict(across), words.families_line(across), words.cells_line(across))
    yield f"{'. '.join(map(safe, said))}.\n"
    if noise := words.noise_line(across):
        yield f"{safe(noise[0].upper() + noise[1:])}.\n"
    yield f"{METHOD}\n"
    yield from _table(across)
    if across.differences:
        yield "\n## Differences (MD403)\n"
        rows = [
            [one.id, KINDS[one.kind], one.library or "not told", ", ".join(one.families), one.where]
            for one in across.differences
        ]
        yield from table(["difference", "what", "departs", "families", "where"], rows)
    for difference in across.differences:
        own = [cell for cell in across.cells if difference.id in cell.causes]
        yield f"\n### {safe(difference.id)}\n"
        for label, value in words.details(difference, own):
            yield f"- {label}: {safe(value)}"
    for library, scenarios in words.ones_own(across):
        yield f"\nFaults of {safe(library)}'s own, told by its own table: {safe(', '.join(scenarios))}."
    yield "\n## Not compared\n"
    rows = [
        [words.MEANINGS[result], reason, ", ".join(where)] for result, reason, where in words.reasons(across)
    ]
    yield from table(["result", "why", "where"], rows)
    for note in across.notes:
        yield f"\nNote: {safe(note)}"


def _table(across: Across) -> Iterator[str]:
    names = words.columns(across)
    if not names:
        return
    yield "## Families and scenarios\n"
    yield "; ".join(f"`{sign}` {safe(meaning)}" for sign, meaning in words.LEGEND) + ".\n"
    titles = [[str(number), name, words.TITLES.get(name, "")] for number, name in enumerate(names, 1)]
    yield from table(["column", "scenario", "what it does"], titles)
    yield ""
    largest = {
        row.family: max(
            (c.largest or 0.0 for c in across.cells if c.family == row.family and c.result == "agree"),
            default=None,
        )
        for row, _ in words.signs(across)
    }
    header = ["family", "agrees within", *(str(number) for number in range(1, len(names) + 1))]
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row, signs in words.signs(across):
        near = largest[row.family]
        told = "" if near is None else f"{near:.1e}"
        cells = " | ".join(f"`{sign}`" if sign.strip() else "" for sign in signs)
        yield f"| {safe(row.family)} | {told} | {cells} |"
