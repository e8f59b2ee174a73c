"""The comparison of two libraries, one small renderer per format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mlxdiag.audit.across.cell import Across

FORMATS = ("text", "json", "markdown")

Renderer = Callable[[Across], str]


def renderer(format: str) -> Renderer:
    """The `render` function of the module named like the format, one of `FORMATS`."""
    render: Renderer = import_module(f"mlxdiag.reports.across.{format}").render
    return render
