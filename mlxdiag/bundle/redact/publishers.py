"""Names of models that are public: a known publisher's, or a known family's without a folder."""

from __future__ import annotations

import re
from functools import cache

from mlxdiag.bundle.redact.vocabulary import Vocabulary
from mlxdiag.bundle.redact.wordlists import listed

FAMILIES = tuple(listed("families.txt"))
FOLDERS = frozenset(("mlx_lm", "vllm", "transformers", "mlx-c", "mlx", "torch", "c", "cpp"))
"""In the list because libraries' sources lie in them; nobody publishes models there."""
_STEM = re.compile(r"[a-z]+")


def is_public(name: str, vocabulary: Vocabulary) -> bool:
    """Whether a model's name tells nothing of who uses it; `cache/model` is somebody's folder."""
    if name in vocabulary.kept:
        return True
    if not vocabulary.knows(name):
        return False
    owner, slash, rest = name.partition("/")
    if slash:
        return owner.lower() in _publishers() and "/" not in rest and bool(rest)
    stem = _STEM.match(name.lower())
    return stem is not None and stem.group().startswith(FAMILIES)


@cache
def _publishers() -> frozenset[str]:
    return frozenset(listed("publishers.txt")) - FOLDERS
