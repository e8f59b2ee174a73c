"""Configs, environments and sources: what of such a mapping may stay, by the names of its fields.

Token ids are text, and a list of them looks like any other list of integers. So numbers stay only under names
that are known to count something else, and lists of them only as far as they look like what their name says:
layer indexes ascend and lie below the depth, sizes are one for each layer and nearly all alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import UNSET

from mlxdiag.bundle.redact import wordlists
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.special import MOST_ENDS
from mlxdiag.models.configs.habits import HABITS

DEEPEST = 6
MOST_LAYERS = 512
"""More than any model has; the bound of a layer's index where the config does not say its depth."""
DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_transformer_layers")
MOST_SIZES = 8
"""Different values in a list with one size for each layer."""
MOST_PARTS, LARGEST_PART = 4, 256
"""Of the few sections into which a head's dimensions are cut."""
LARGEST_FACTOR = 128
LONGEST_NUMBER = 4
"""Digits in a row in a name: `gemma-3`, `glm-4-0414`, `bfloat16`. Ids of most words have as many, so a name
also has to begin with a letter, and can hold only `MOST_NUMBERS` such parts."""
MOST_NUMBERS = 4
MOST_WORDS = 6
"""Of one text in an environment: `macOS 26`, `mlx_lm server`."""

_NAME = re.compile(r"[A-Za-z_][\w.:/+-]{0,79}\Z", re.ASCII)
_DIGITS = re.compile(r"\d+")
_VERSION = re.compile(
    r"v?\d+(?:\.\d+){1,4}(?:[.+-]?(?:dev|rc|post|a|b)\.?\d*)?(?:\+(?:g?[0-9a-f]{7,12}|cu\d+|cpu))?\Z"
)
_RELEASE = re.compile(r"v?\d{1,5}(?:\.\d{1,6}){1,4}(?:-[\w.]{1,20}){0,4}\Z", re.ASCII)
_SHORT_RELEASE = re.compile(r"\d{1,2}\Z")
_PLAIN = re.compile(r"[\w .,()]*\Z", re.ASCII)
"""A system that is named for nothing but itself."""
_KERNEL = re.compile(r"\d{1,2}(?:\.\d{1,3}){1,2}(?=[-+_~]|\Z)", re.ASCII)
"""In front of what a kernel is named for. Of an address nothing stays."""
_LETTERS = re.compile(r"[A-Z*-]{1,512}\Z")


@cache
def names_of(kind: str) -> frozenset[str]:
    """The fields of `settings.txt` of this kind."""
    lines = map(str.split, wordlists.lines("settings.txt"))
    return frozenset(name for first, *names in lines if first == kind for name in names)


class Settings:
    """Cleans such mappings into one ledger."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def mapping(self, value: Mapping[str, Any], *, spoken: bool = False) -> dict[str, Any]:
        """Its known names with their numbers, switches and known words.

        `spoken`: texts may be several words and a version, as in an environment; else each is one name.
        """
        return self._mapping(value, MOST_LAYERS, spoken, "", 1)

    def _mapping(
        self, value: Mapping[str, Any], depth: int, spoken: bool, under: str, level: int
    ) -> dict[str, Any]:
        depth = next((found for name in DEPTHS if (found := _depth(value.get(name)))), depth)
        kept = {}
        for name, one in value.items():
            if not self._is_field(name):
                self._messages.ledger.take("field", str(name))
                continue
            clean = self._value(name, one, depth, spoken, under, level)
            if clean is UNSET:
                self._messages.ledger.take("field", one if isinstance(one, str) else "")
            else:
                kept[name] = clean
        return kept

    def _is_field(self, name: str) -> bool:
        return any(name in names_of(kind) for kind in KINDS) or self.name(name) is not None

    def _value(self, name: str, value: Any, depth: int, spoken: bool, under: str, level: int) -> Any:
        """UNSET for what is left out."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return value if name in names_of("number") | names_of("special") else UNSET
        if isinstance(value, str):
            told = self._is_text(name, value, spoken, under)
            if spoken and name == "os" and not (told and _PLAIN.match(value)):
                return self._system(value)
            return value if told else UNSET
        if level > DEEPEST:
            return UNSET
        if isinstance(value, Mapping):
            return self._mapping(value, depth, spoken, name, level + 1)
        if isinstance(value, list | tuple):
            return self._items(name, list(value), depth, spoken, level)
        return UNSET

    def _system(self, value: str) -> Any:
        """Name and plain version of a system: kernels are named for who built them, and for machines."""
        first, *words = value.split() or [""]
        if first not in names_of("system"):
            return UNSET
        self._messages.ledger.take("field", value)
        version = next(filter(None, map(_KERNEL.match, words)), None)
        return f"{first} {version.group()}" if version is not None else first

    def _items(self, name: str, items: list[Any], depth: int, spoken: bool, level: int) -> Any:
        if len(items) > MOST_LAYERS:
            return UNSET
        if all(isinstance(one, Mapping) for one in items):
            return [self._mapping(one, depth, spoken, name, level + 2) for one in items]
        if all(isinstance(one, bool | int | float) for one in items):
            return items if _may_stay(name, items, depth) else UNSET
        if all(isinstance(one, str) for one in items):
            return [one for one in items if self.name(one) is not None] or UNSET
        return UNSET

    def _is_text(self, name: str, value: str, spoken: bool, under: str) -> bool:
        if name in names_of("letters") and _LETTERS.match(value):
            return True
        if name == "attention":
            # `paged|eager`: a way of keeping keys, and an implementation.
            known = names_of("implementation")
            return all(part in known or self.name(part) is not None for part in value.split("|"))
        if name in ARCHITECTURES:
            return self.architecture(value) is not None
        versioned = name in names_of("version") or under == "libraries"
        if versioned and _is_version(value):
            return True
        if not spoken:
            return self.name(value) is not None
        words = value.replace(",", " ").split()
        numbers = [word for word in words if word[:1].isdigit()]
        return (
            0 < len(words) <= MOST_WORDS
            and len(numbers) <= 1
            and all(_is_version(word) and self._messages.vocabulary.knows(word) for word in numbers)
            and all(self.name(word) is not None for word in words if word not in numbers)
        )

    def architecture(self, text: str) -> str | None:
        """A model type that a library has, or a name of known parts; else None."""
        return text if text in HABITS or text in names_of("architecture") else self.name(text)

    def name(self, text: str) -> str | None:
        """A name of known parts that begins with a letter and is no number in disguise; else None.

        One that was asked for stays whatever its form.
        """
        if text in self._messages.vocabulary.kept:
            return text
        return text if is_name(text) and self._messages.name(text) is not None else None


ARCHITECTURES = ("architecture", "model_type")
KINDS = ("number", "layers", "flags", "each", "factors", "parts", "letters", "special", "version")


def is_name(text: str) -> bool:
    """Whether the form is that of a name: a letter first, few and short numbers."""
    runs = _DIGITS.findall(text)
    return (
        _NAME.match(text) is not None
        and len(runs) <= MOST_NUMBERS
        and all(len(run) <= LONGEST_NUMBER for run in runs)
    )


def _is_version(text: str) -> bool:
    return any(pattern.match(text) for pattern in (_VERSION, _RELEASE, _SHORT_RELEASE))


def _depth(value: Any) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_LAYERS
    return value if fits else None


def _may_stay(name: str, items: list[Any], depth: int) -> bool:
    """Whether a list of numbers looks like what its name says that it counts."""
    whole = all(isinstance(one, int) for one in items)
    if name in names_of("special"):
        return whole and len(items) <= MOST_ENDS
    if name in names_of("flags") and all(one in (0, 1) for one in items):
        return True
    if name in names_of("layers"):
        return whole and are_indexes(items, depth + 1)
    if name in names_of("each"):
        return len(items) == depth and len(set(items)) <= MOST_SIZES
    if name in names_of("parts"):
        return whole and len(items) <= MOST_PARTS and all(0 <= one <= LARGEST_PART for one in items)
    if name in names_of("factors"):
        small = all(abs(one) <= LARGEST_FACTOR or one == float("inf") for one in items)
        return small and (len(set(items)) <= 2 or any(one % 1 for one in items if one != float("inf")))
    return not items


def are_indexes(items: list[int], end: int = MOST_LAYERS) -> bool:
    """Whether these can be numbers of layers: ascending, none twice, below `end`."""
    return all(0 <= one < end for one in items) and items == sorted(set(items))
