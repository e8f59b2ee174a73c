"""YAML as traces use it: the safe loader, except that `1e-7` is a number and dates stay text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FLOAT_TAG = "tag:yaml.org,2002:float"
DATE_TAG = "tag:yaml.org,2002:timestamp"
# YAML 1.1, which PyYAML speaks, wants a dot and a signed exponent; JSON and YAML 1.2 do not.
JSON_FLOAT = re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$")
_MOST_VALUES = 100_000


class Loader(_Base):  # type: ignore[misc]
    """The C loader where PyYAML was built with it."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != DATE_TAG]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _first in "-+0123456789":
    Loader.yaml_implicit_resolvers.setdefault(_first, []).append((FLOAT_TAG, JSON_FLOAT))


class BadYaml(Exception):
    """What YAML could not read: `line` counts from 0 within the text."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def load(text: str) -> Any:
    """One YAML document as JSON-like objects: mapping keys become strings.

    A duplicate key keeps its last value, as in the JSON decoder. Raises BadYaml.
    """
    try:
        return _plain(yaml.load(text, Loader=Loader), iter(range(_MOST_VALUES + len(text))))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # An unclosed bracket is noticed past the end: the last line with text is nearer to it.
        line = min(mark.line, text.rstrip().count("\n")) if mark else 0
        raise BadYaml(" ".join(str(error.problem or error.context).split()), line) from None
    except yaml.reader.ReaderError as error:
        raise BadYaml(f"a character that YAML does not allow: {error.character!r}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadYaml(" ".join(str(error).split())) from None
    except RecursionError:
        raise BadYaml("nested too deeply, or an alias that contains itself") from None


def _plain(value: Any, budget: Iterator[int]) -> Any:
    """Of JSON's types only. Every value is paid from the budget, which only aliases of aliases can exceed."""
    if next(budget, None) is None:
        raise BadYaml("aliases that stand for far more than the text holds")
    if isinstance(value, dict):
        return {_key(key): _plain(one, budget) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, budget) for one in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise BadYaml(f"a value of type {type(value).__name__}, which a trace cannot hold")


def _key(key: Any) -> str:
    """As JSON spells it: `true` for True, `null` for None."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(key)
