"""`mlxdiag rule`: the list of rules, or all there is to say about one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.errors import CLEAN, UsageError
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules import RULES
from mlxdiag.reports import json, rulebook

FORMATS = ("text", "json", "markdown")


def main(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="A code, a name, or the beginning of a code.")
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help=", ".join(FORMATS) + ".")
    ] = "text",
    output: options.Output = None,
    force: options.Force = False,
) -> int:
    """What a rule means, with traces that fire it and neighbours that do not."""
    one_of("format", format, FORMATS)
    refuse_overwriting(output, force)
    rules = find(code) if code else sorted(RULES, key=lambda rule: rule.code)
    write_result(_render(rules, format, whole=code is None), output)
    return CLEAN


def find(asked: str) -> list[type[Rule]]:
    """The rule of that code or name, or every rule whose code begins so. Raises UsageError for none."""
    rules = sorted(RULES, key=lambda rule: rule.code)
    exact = [rule for rule in rules if asked.upper() == rule.code or asked.lower() == rule.name]
    found = exact or [rule for rule in rules if rule.code.startswith(asked.upper())]
    if not found:
        names = [word for rule in rules for word in (rule.code, rule.name)]
        near = get_close_matches(asked, names) or get_close_matches(asked.upper(), names)
        guess = f"; did you mean {', '.join(near)}?" if near else "; 'mlxdiag rule' lists them"
        raise UsageError(f"there is no rule {asked!r}{guess}")
    return found


def _render(rules: list[type[Rule]], format: str, whole: bool) -> str:
    if format == "json":
        return json.pretty(rulebook.entries(rules))
    if format == "markdown":
        return rulebook.book(rules)
    return rulebook.page(rules[0]) if len(rules) == 1 and not whole else rulebook.listing(rules)
