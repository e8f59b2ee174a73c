"""Every format that an audit can be shown in, each imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mlxdiag.reports.audit.shown import Shown

Renderer = Callable[[Shown], str]


def renderer(format: str) -> Renderer:
    """The `render` function of the module named like the format."""
    render: Renderer = import_module(f"mlxdiag.reports.audit.{format}").render
    return render
