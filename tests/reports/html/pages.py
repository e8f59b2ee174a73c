"""Reads pages as a browser would, and makes those that the tests of this folder share."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.reports.html import story, trace_page
from mlxdiag.traces.reader import parse

HEAD = (
    "model: {name: tiny, architecture: gemma3_text, layers: {sliding: {attention: sliding, window: 4}, "
    "full: {attention: full}}}\nsteps:\n"
)
BLIND = (
    "- {step: 1, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding, offset: 0, k: 8, "
    "mask: [8, 4], fate: discarded, fallback: sliced}, {family: full, offset: 0, k: 8, mask: [8, 8]}]}\n"
)
DECODE = (
    "- {step: 2, rows: [{seq: a, offset: 8, tokens: 1}], attention: [{family: sliding, offset: 8, k: 4, "
    "mask: null}, {family: full, offset: 8, k: 9, mask: null}]}\n"
)
ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover=alert(3) `"


class Page(HTMLParser):
    """What elements a page has, and with which attributes; unclosed and misplaced ends are kept as faults."""

    VOID = frozenset({"meta", "link", "input", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag, **wanted):
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        ]

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def rendered(*steps: str, head: str = HEAD, source: str = "t.yaml") -> str:
    trace = parse(head + "".join(steps))
    report = inspect_trace(trace)
    report.source = source
    return trace_page.render(trace.header, trace.entries, report)


def told(*steps: str, head: str = HEAD) -> story.Story:
    trace = parse(head + "".join(steps))
    return story.read(trace.header, trace.entries, inspect_trace(trace))


def embedded(text: str, name: str):
    """A block of data of a page."""
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text)[1])
