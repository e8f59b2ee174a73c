"""Makes text from a trace harmless on one line. Traces come from strangers: nothing in them is obeyed."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` on one line: control characters, line breaks and lone surrogates become visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def log_line(text: str) -> str:
    r"""`text` without what a CI log obeys: `::` at the start of a line, and `##[` anywhere in it.

    The runner of GitHub Actions trims blanks before it looks for `::`, so an indent does not help.
    """
    text = text.replace("##[", "#\\x23[")
    body = text.lstrip()
    return text[: len(text) - len(body)] + "\\x3a" + body[1:] if body.startswith("::") else text


def command_data(text: str) -> str:
    """The message of a workflow command: percent, carriage return and line feed as its manual says."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(text)


def command_property(text: str) -> str:
    """A property of a workflow command, which colons and commas would end."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def xml(text: str) -> str:
    """Character data or an attribute value; what XML 1.0 forbids becomes a visible escape."""
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(plain, entity)
    return "".join(c if c == "\n" or _xml_allows(c) else c.encode("unicode_escape").decode() for c in text)


def _xml_allows(c: str) -> bool:
    return c.isprintable() and c not in "\ufffe\uffff"


def markdown(text: str) -> str:
    """Text that no Markdown reader formats, links, mentions or splits into cells."""
    text = printable(text)
    for special in "\\`*_{}[]#|~!":
        text = text.replace(special, "\\" + special)
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;")):
        text = text.replace(plain, entity)
    return text
