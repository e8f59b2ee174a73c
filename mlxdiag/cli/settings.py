"""What to do with a result: the command line over `[tool.mlxdiag]` of pyproject.toml over the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UsageError
from mlxdiag.reports.formats import FORMATS

FAIL_ON = ("error", "warning")
KEYS = ("format", "select", "ignore", "fail-on")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Checked: every format, severity and code in here exists."""

    format: str = "text"
    output: Path | None = None
    force: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = "error"
    expect: tuple[str, ...] | None = None
    """Codes that must fire, and no others; empty expects a clean trace; None expects nothing."""


def settle(
    *,
    format: str | None = None,
    output: Path | None = None,
    force: bool = False,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    fail_on: str | None = None,
    expect: str | None = None,
) -> Settings:
    """Merge and check.

    Raises:
        UsageError: an unknown format, severity, code or key of pyproject.toml, or an output that would
            be overwritten.
    """
    from mlxdiag.inspect.rules import RULES  # the verbs that judge nothing start sooner without them

    known = sorted(rule.code for rule in RULES)
    config = _configured(Path.cwd())
    settings = Settings(
        format=one_of("format", format or config.get("format", "text"), FORMATS),
        output=None if output == Path("-") else output,
        force=force,
        select=_prefixes("select", select or config.get("select", ()), known),
        ignore=_prefixes("ignore", ignore or config.get("ignore", ()), known),
        fail_on=one_of("fail-on", fail_on or config.get("fail-on", "error"), FAIL_ON),
        expect=None if expect is None else _expected(expect, known),
    )
    refuse_overwriting(settings.output, force)
    return settings


def one_of(option: str, value: Any, allowed: Sequence[str]) -> str:
    """`value` as it is. Raises UsageError where it is none of `allowed`."""
    if value in allowed:
        return str(value)
    raise UsageError(f"{option}: {value!r} is none of {', '.join(allowed)}")


def _prefixes(option: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """`MD1,MD203` or several values; each must be the beginning of a code."""
    prefixes = tuple(part.strip().upper() for value in given for part in value.split(",") if part.strip())
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in known):
            raise UsageError(f"{option}: no rule's code begins with {prefix!r} (see 'mlxdiag rule')")
    return prefixes


def _expected(value: str, known: Sequence[str]) -> tuple[str, ...]:
    codes = tuple(part.strip().upper() for part in value.split(",") if part.strip())
    if codes in ((), ("NONE",)):
        return ()
    for code in codes:
        if code not in known:
            raise UsageError(f"expect: there is no rule {code!r} (see 'mlxdiag rule')")
    return codes


def refuse_overwriting(path: Path | None, force: bool) -> None:
    """Asked before the work, so that a long replay is not lost to it. Raises UsageError."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: not a file in an existing folder")
    if path.is_file() and not force:
        raise UsageError(f"{path} exists: give another name, or --force to overwrite it")


def _configured(folder: Path) -> dict[str, Any]:
    """`[tool.mlxdiag]` of the nearest pyproject.toml that has one."""
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if path.is_file() and "tool.mlxdiag" in (text := path.read_text(errors="replace")):
            return _checked(_table(text, path), path)
    return {}


def _table(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # only when there is a table to read: its import is a tenth of the start

    try:
        table = tomllib.loads(text).get("tool", {}).get("mlxdiag", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.mlxdiag] must be a table")
    return table


def _checked(table: dict[str, Any], path: Path) -> dict[str, Any]:
    for key, value in table.items():
        if key not in KEYS:
            raise UsageError(f"{path}: [tool.mlxdiag] has no key {key!r}; it knows {', '.join(KEYS)}")
        wanted, shape = (list, "a list of codes") if key in ("select", "ignore") else (str, "text")
        if not isinstance(value, wanted) or (wanted is list and not all(isinstance(v, str) for v in value)):
            raise UsageError(f"{path}: [tool.mlxdiag] {key} must be {shape}")
    return table
