"""The lists of words that lie in this folder."""

from __future__ import annotations

from importlib.resources import files


def listed(name: str) -> list[str]:
    """The words of a list; lines that begin with # are about it."""
    text = files("mlxdiag.bundle.redact").joinpath(name).read_text("utf-8")
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
