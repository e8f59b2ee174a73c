"""The shell of a page: head, security policy, style and script, all in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from mlxdiag import __version__
from mlxdiag.reports.html.markup import Html, tag

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}; "
    "base-uri 'none'; form-action 'none'"
)
"""No text of a trace can run: a script runs only if it is one of ours, by its hash."""


def page(title: str, body: Html, scripts: tuple[str, ...]) -> str:
    """The whole document. `scripts` names files of this package."""
    code = [_asset(name) for name in scripts]
    hashes = " ".join(f"'sha256-{_digest(one)}'" for one in code) or "'none'"
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY.format(scripts=hashes)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"mlxdiag {__version__}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        Html(f"<style>\n{_asset('style.css')}</style>"),
    )
    ends = "".join(f"<script>{one}</script>\n" for one in code)
    parts = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        f"<head>{''.join(head)}</head>",
        "<body>",
        tag("a", "Skip to the verdict", href="#main", class_="skip"),
        body,
        tag("footer", f"mlxdiag {__version__}"),
        ends + "</body>",
        "</html>",
    )
    return "\n".join(parts) + "\n"


def section(name: str, title: str, *children: str, note: str = "") -> Html:
    """A part of the page with its heading."""
    said = (tag("p", note, class_="note"),) if note else ()
    return tag(
        "section", tag("h2", title, id=f"h-{name}"), *said, *children, id=name, aria_labelledby=f"h-{name}"
    )


def table(
    header: tuple[str, ...], rows: Sequence[tuple[Html | str, ...]], caption: str, **attributes: str
) -> Html:
    """A table that scrolls by itself where it is wider than the screen."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in header)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    inner = tag("table", tag("caption", caption), head, body, **attributes)
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _asset(name: str) -> str:
    return (files("mlxdiag.reports.html") / name).read_text("utf-8")


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
