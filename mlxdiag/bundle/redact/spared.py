"""What a later rule would take for something else: days with times, commits, versions, loopback addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

from mlxdiag.bundle.redact import counters, heads

MOST_TIMES = 2
"""Times in one message: its own, and one that it tells of."""

_COMMIT = re.compile(
    r"\b(?:commit|rev|revision|HEAD|main@)[\s:=@(]+(?=[0-9a-f]*[a-f])(?:[0-9a-f]{7,9}|[0-9a-f]{40})\b(?![0-9a-f])"
)
_BUILD = re.compile(r"\bbuild: \d{3,5} \([0-9a-f]{7,9}\)")
_VERSION = re.compile(
    r"(?<![\w.])(?P<key>[A-Za-z][\w.-]*?)(?P<sep>[ =:@(/-]+v?)\d+(?:\.\d+){1,3}(?:[.-]?(?:dev|rc"
    r"|post|alpha|beta|a|b)\.?\d*)?"
    r"\+(?:g?[0-9a-f]{7,9}|cu\d+|cpu)(?!\w)"
)
_LOOPBACK = re.compile(
    r"\bhttps?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d{1,5})?(?P<path>(?:/v1|/api)?"
    r"(?:/(?:chat/completions|completions?|chat|models|embeddings|responses|messages|generate|tags|health|metrics|version))?/?)"
    r"(?=[\s\"',.)\]]|$)"
)
_MATRICES = re.compile(r"\(\d{1,7}x\d{1,7} and \d{1,7}x\d{1,7}\)")
"""As torch tells of shapes that cannot be multiplied."""


def clean(text: str, keep: Callable[[str], str]) -> str:
    """`text` with what is spared as marks; `keep` makes one."""
    text = heads.times().sub(lambda match: keep(match.group()), text, count=MOST_TIMES)
    for pattern in (_COMMIT, _BUILD, _MATRICES, _LOOPBACK):
        text = pattern.sub(lambda match: keep(match.group()), text)

    def version(match: Match[str]) -> str:
        if match["key"].lower() not in counters.words("libraries"):
            return match.group()
        return match["key"] + match["sep"] + keep(match.group()[match.end("sep") - match.start() :])

    return _VERSION.sub(version, text)
