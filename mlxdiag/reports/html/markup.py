"""HTML by construction: a plain string is always escaped, and only `Html` goes through as it is."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from mlxdiag.reports.escape import printable


class Html(str):
    """Markup that is finished. Nothing but this module makes it from text."""

    __slots__ = ()


Content = str | int | float | None
VOID = frozenset({"meta", "link", "input"})
"""Elements of HTML that never end."""
SHAPES = frozenset({"path", "rect"})
"""Elements of SVG that hold nothing."""


def text(value: Content) -> Html:
    """Escaped, with control characters, lone surrogates and text-direction tricks made visible."""
    if value is None:
        return Html("")
    if isinstance(value, Html):
        return value
    return Html(escape(printable(str(value)), quote=True))


def lines(value: str) -> Html:
    """The same with its line breaks kept, for `pre`."""
    return Html("\n".join(text(line) for line in value.splitlines()))


def tag(name: str, /, *children: Content, **attributes: Content | bool) -> Html:
    """An element. Attributes: `class_` for class, `data_step` for data-step; None and False leave one out."""
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{shown}>")
    if name in SHAPES:
        return Html(f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{''.join(text(child) for child in children)}</{name}>")


def _attribute(key: str, value: Content | bool) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-") if key not in ("viewBox", "preserveAspectRatio") else key
    return f" {name}" if value is True else f' {name}="{text(value)}"'


def join(parts: Any) -> Html:
    """Elements one after another."""
    return Html("".join(text(part) for part in parts))


def data(name: str, value: Any) -> Html:
    """A block of data for the page's own script; no text in it can end the element."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for plain, safe in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        body = body.replace(plain, safe)
    return Html(f'<script type="application/json" id="{text(name)}">{body}</script>')
