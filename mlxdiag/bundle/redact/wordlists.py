"""The lists of words that lie in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files


def lines(name: str) -> Iterator[str]:
    """The lines of a list, but for those that begin with #, which are about it."""
    text = files("mlxdiag.bundle.redact").joinpath(name).read_text("utf-8")
    return (line for line in text.splitlines() if not line.startswith("#"))


def listed(name: str) -> list[str]:
    """The words of a list."""
    return [word for line in lines(name) for word in line.split()]


@cache
def section(name: str, title: str) -> frozenset[str]:
    """The words of a list under `[title]`."""
    found: dict[str, set[str]] = {}
    under = ""
    for word in listed(name):
        if word.startswith("[") and word.endswith("]") and len(word) > len("[]"):
            under = word.strip("[]")
        else:
            found.setdefault(under, set()).add(word)
    return frozenset(found[title])
