"""Reserved and control ids of a checkpoint, from the added tokens in its tokenizer files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.types import Tokens

_NAMES = "unused|reserved|reserved_special_token|extra|dummy|placeholder"
_RESERVED = re.compile(rf"^[<\[]\|?(?:{_NAMES})_?-?\d+\|?[>\]]$")


def of_directory(directory: Path, known: Tokens | None) -> Tokens | None:
    """`known` ids (pad, eos) with what tokenizer.json or tokenizer_config.json adds.

    Reserved are added tokens whose name says that nobody uses them; control are the special ones besides. A
    slot that a fine-tune gave another name is not reserved. Raises UnreadableError for a broken file.
    """
    added = dict(_added(directory))
    if not added:
        return known
    reserved = sorted(id_ for id_, (name, _) in added.items() if _RESERVED.match(name))
    control = sorted(id_ for id_, (_, special) in added.items() if special and id_ not in set(reserved))
    return msgspec.structs.replace(
        known or Tokens(), reserved=list(_ranges(reserved)) or None, control=control or None
    )


def fitting(tokens: Tokens | None, vocab: int | None) -> Tokens | None:
    """A vocabulary too small for the family's reserved ids is another tokenizer's."""
    if tokens is None or vocab is None or all(last < vocab for _, last in tokens.reserved or ()):
        return tokens
    fitting = msgspec.structs.replace(tokens, reserved=None)
    return fitting if fitting != Tokens() else None


def _added(directory: Path) -> Iterator[tuple[int, tuple[str, bool]]]:
    for name, read in (("tokenizer.json", _listed), ("tokenizer_config.json", _keyed)):
        path = directory / name
        if not path.exists():
            continue
        try:
            found = list(read(json.loads(path.read_bytes())))
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise UnreadableError(f"{path}: {type(error).__name__}: {error}") from None
        if found:
            yield from found
            return


def _listed(tokenizer: Any) -> Iterator[tuple[int, tuple[str, bool]]]:
    for token in tokenizer.get("added_tokens") or ():
        yield int(token["id"]), (str(token["content"]), bool(token.get("special")))


def _keyed(config: Any) -> Iterator[tuple[int, tuple[str, bool]]]:
    for id_, token in (config.get("added_tokens_decoder") or {}).items():
        yield int(id_), (str(token["content"]), bool(token.get("special")))


def _ranges(ids: list[int]) -> Iterator[tuple[int, int]]:
    """Inclusive ranges of ascending ids."""
    start = previous = None
    for id_ in ids:
        if start is None or previous is None:
            start = id_
        elif id_ != previous + 1:
            yield start, previous
            start = id_
        previous = id_
    if start is not None and previous is not None:
        yield start, previous
