"""Names and texts spelt so that no list of words sees them: letter by letter, escaped, or in hexadecimal."""

from __future__ import annotations

import re
from collections.abc import Iterator

MACHINES = (
    "server", "node", "host", "box", "pc", "nas", "machine", "laptop", "desktop", "macbook",
    "studio", "cluster", "rack", "workstation", "rig",
)  # fmt: skip
PROGRAMS = (
    "llama", "mlx", "mlxcel", "vllm", "ollama", "api", "http", "https", "web", "omlx", "sglang",
    "uvicorn", "lm", "inference",
    "multi", "single", "per", "cross", "inter", "intra", "sub", "client", "re", "non",
)  # fmt: skip
"""What stands before `-server` in the name of a program, and of no machine."""
COUNTED = (
    "step", "offset", "idx", "layer", "line", "row", "chunk", "slot",
    "task", "localhost", "rank", "size", "len",
)  # fmt: skip
"""Names before a colon and a number that are no machine's."""

_LETTERS = re.compile(r"(?<![\w'])[A-Za-z](?:[ ._*-]{1,3}[A-Za-z]){4,}(?![\w'])")
_ESCAPED = re.compile(r"\w%[0-9A-F]{2}\w|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|&#x?[0-9a-f]{2,6};", re.IGNORECASE)
_FOLDERS = re.compile(r"(?<![\w./\]:>-])(?P<first>[a-z]{4,})/(?P<second>[a-z]{4,})(?![\w.-])")
_NO_FOLDERS = (
    "hybrid/recurrent",
    "prefill/decode",
    "read/write",
    "input/output",
    "encoder/decoder",
    "token/second",
    "tokens/second",
)
_PAIRS = re.compile(r"(?<!\w)[0-9A-Fa-f]{2}(?:[ :-][0-9A-Fa-f]{2}){5,}(?!\w)")
_HEXADECIMAL = re.compile(r"(?<!\w)(?:[0-9A-Fa-f]{2}){5,}(?!\w)")
_POINTER = re.compile(r"\b0x[0-9A-Fa-f]{6,}\b")
_BUILD = re.compile(r"\d\+[0-9a-f]{10,}\b")
_QUAD = re.compile(r"(?<![\w.-])\d{1,3}([-_])\d{1,3}\1\d{1,3}\1\d{1,3}(?![\w.-])")
_MACHINE = re.compile(rf"(?<![\w./-])(?P<first>[A-Za-z][A-Za-z0-9]*)-(?:{'|'.join(MACHINES)})\d*(?![\w-])")
_NUMBERED = re.compile(r"(?<![\w.-])(?<!hash:)[A-Za-z]{2,}0\d{1,2}(?![\w.])")
_PORT = re.compile(r"(?<![\w./:\]-])(?P<name>[A-Za-z][\w-]*):\d{4,5}(?![\w:.,])")
_BEARER = re.compile(r"\bbearer\s+(?:token\s+)?(?!token|auth|scheme)[A-Za-z0-9]", re.IGNORECASE)


def private(line: str) -> Iterator[str]:
    """The kinds of such names and texts in a log's line."""
    if _LETTERS.search(line) or _ESCAPED.search(line) or any(_is_text(m.group()) for m in _hexadecimal(line)):
        yield "a text that is spelt or escaped"
    if _POINTER.search(line) or _QUAD.search(line):
        yield "an address"
    if any(match.group() not in _NO_FOLDERS for match in _FOLDERS.finditer(line)):
        yield "a path"
    if _BUILD.search(line):
        yield "an encoded or random text"
    if _BEARER.search(line):
        yield "an authorization"
    machines = (match["first"].casefold() for match in _MACHINE.finditer(line))
    ports = (match["name"].casefold() for match in _PORT.finditer(line))
    if (
        any(name not in PROGRAMS for name in machines)
        or any(name not in COUNTED for name in ports)
        or _NUMBERED.search(line)
    ):
        yield "a host name"


def _hexadecimal(line: str) -> Iterator[re.Match[str]]:
    yield from _PAIRS.finditer(line)
    yield from _HEXADECIMAL.finditer(line)


def _is_text(pairs: str) -> bool:
    """Whether the bytes are letters that somebody may have written."""
    digits = re.sub(r"[^0-9A-Fa-f]", "", pairs)
    if not any(c.isalpha() for c in digits) and len(digits) < 16:
        return False
    text = bytes.fromhex(digits)
    return all(0x20 <= byte < 0x7F for byte in text)
