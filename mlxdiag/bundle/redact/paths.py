"""Paths: of a library's own file the part inside the library stays, of anything else at most a known file
name."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

from mlxdiag.bundle.redact.publishers import is_public
from mlxdiag.bundle.redact.vocabulary import Vocabulary

Put = Callable[[str, str, str], str]

LIBRARIES = (
    "mlx_lm", "mlx_vlm", "mlx", "mlx-c", "mlx-lm", "mlx-swift", "mlx-swift-lm", "mlxcel", "mlxdiag",
    "transformers", "torch",
    "vllm", "sglang", "llama.cpp", "ggml", "numpy", "uvicorn", "fastapi", "starlette", "asyncio", "ollama",
    "omlx",
    "rapid_mlx", "vllm_mlx", "threading.py", "socketserver.py", "runpy.py", "concurrent",
)  # fmt: skip
"""Folders below which a path is the library's own."""
PACKAGES = ("site-packages", "dist-packages")
SOURCES = (".py", ".rs", ".cpp", ".c", ".h", ".hpp", ".cc", ".swift", ".metal", ".cu", ".cuh", ".go", ".mm")
ROUTES = (
    "v1", "v2", "api", "health", "metrics", "completion", "completions", "chat", "generate", "embeddings",
    "props", "slots", "tokenize", "detokenize", "infill", "models",
)  # fmt: skip
"""First parts of the routes that servers answer, which look like paths."""
LONGEST_ROUTE = 4
PAIRS = (
    "and/or", "read/write", "prefill/decode", "input/output", "hit/miss", "key/value", "encoder/decoder",
    "hybrid/recurrent", "metal/cuda", "tokens/sec", "tokens/second", "token/second", "start/stop",
    "query/key",
)  # fmt: skip
MEDIA = ("text", "application", "http")
"""First parts of the names of media types and protocols."""
LONGEST_SYMBOL = 3
"""Letters of what is no folder: `K/V`, `tok/s`, `CPU/GPU`."""

_QUOTED = re.compile(r"(?P<quote>[\"'])(?P<path>(?:/|~/|[A-Za-z]:[\\/]|\\\\)[^\"'\n]*)(?P=quote)")
_VOLUME = re.compile(
    r"(?:\b[A-Za-z]:)?/(?:Volumes|media|mnt|Users|home)/[^/\n\"',;:]+(?:/[^\s\"'`,;:()\[\]{}<>]*)?"
)
_BARE = re.compile(r"(?<![\w.:/\ue001-])\.{0,2}/(?:\\.|[^\s\"'`,;:()\[\]{}<>\\])+")


def clean(text: str, vocabulary: Vocabulary, put: Put) -> str:
    """`text` with its absolute and dotted paths replaced; routes of known servers stay."""

    def shown(path: str) -> str:
        if _is_route(path, vocabulary):
            return path
        tail = tail_of(path, vocabulary)
        return put("path", path, "[path]" + (f"/{tail}" if tail else ""))

    def quoted(match: Match[str]) -> str:
        return match["quote"] + shown(match["path"]) + match["quote"]

    text = _QUOTED.sub(quoted, text)
    text = _VOLUME.sub(lambda match: shown(match.group()), text)
    return _BARE.sub(lambda match: shown(match.group()), text)


def tail_of(path: str, vocabulary: Vocabulary) -> str | None:
    """The part of a source file's path that tells nothing of the machine: `mlx_lm/models/cache.py`."""
    parts = [part for part in re.split(r"[/\\]+", path) if part]
    if not parts or not parts[-1].endswith(SOURCES):
        return None
    starts = [i + 1 for i, part in enumerate(parts) if part in PACKAGES]
    starts += [i for i, part in enumerate(parts) if part in LIBRARIES]
    for start in [*sorted(starts), len(parts) - 1]:
        tail = "/".join(parts[start:])
        if tail and vocabulary.knows(tail):
            return tail
    return None


def is_plain(word: str, vocabulary: Vocabulary, *, rooted: bool = False) -> bool:
    """Whether known words with slashes between them are no folders: a library's source, a unit, a pair.

    `rooted`: a slash stands before them, as before a server's route.
    """
    parts = [part for part in word.split("/") if part]
    return (
        not any(c.isalpha() for c in word)
        or word.rstrip(".,:").endswith(SOURCES)
        or (rooted and parts[0] in ROUTES)
        or word.lower() in PAIRS
        or parts[0].lower() in MEDIA
        or all(len(part) <= LONGEST_SYMBOL or part.isdigit() for part in parts)
        or (parts[-1] in ("s", "sec") and len(parts) == 2)
        or is_public(word, vocabulary)
    )


def _is_route(path: str, vocabulary: Vocabulary) -> bool:
    parts = [part for part in path.split("/") if part]
    known = bool(parts) and parts[0] in ROUTES and vocabulary.knows(path)
    return path == "/" or (known and path.startswith("/") and len(parts) <= LONGEST_ROUTE)
