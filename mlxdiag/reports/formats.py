"""Every format that a report can be shown in, each imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module

from mlxdiag.reports.view import Renderer

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")


def renderer(format: str) -> Renderer:
    """The `render` function of the module named like the format."""
    render: Renderer = import_module(f"mlxdiag.reports.{format}").render
    return render
