"""Every format that a report can be shown in."""

from __future__ import annotations

from mlxdiag.reports import github, json, junit, markdown, sarif, text
from mlxdiag.reports.view import Renderer

RENDERERS: dict[str, Renderer] = {
    "text": text.render,
    "json": json.render,
    "sarif": sarif.render,
    "github": github.render,
    "junit": junit.render,
    "markdown": markdown.render,
}
