"""Numbers in the structured parts, as the detector sees them: token ids that pass for something else.

Written without a look at what cleans those parts: it goes by the words in a name and by the form of a list,
where `settings` goes by whole names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from mlxdiag.traces.types import Attention, Parity

TRACES = ("trace.yaml", "repro/trace.yaml")
PARTS = (*TRACES, "tokens.jsonl", "model.json", "environment.json")
MAPPINGS = ("config", "environment", "source", "quantization")
"""Names of mappings that hold whatever a model's or a program's author put in."""
POSITIONS = frozenset((*Attention.__struct_fields__, *Parity.__struct_fields__)) - {"layers", "mask"}
"""Whatever a call or a comparison lists besides are positions and lengths."""
SPOKEN = ("note", "planted", "refused", "text", "where")
SHAPES = ("shape", "mask", "shapes")
COUNTED = frozenset(
    {
        "size", "window", "layer", "layers", "head", "heads", "dim", "dims", "dimension", "theta", "eps",
        "epsilon", "factor", "chunk", "pattern", "interval", "period", "rank", "expert", "experts",
        "kernel", "scale", "scaling", "scalar", "base", "freq", "pct", "beta", "group", "groups", "bits",
        "topk", "capping", "softcapping", "cap", "state", "step", "width", "conv", "multiplier", "length",
        "positions", "position", "ctx", "dropout", "range", "memory", "gib", "cores", "threads", "vocab",
        "embd", "inner", "channels", "model", "constant", "mscale", "loops", "loop", "tokens", "replace",
        "every", "mult", "alpha", "limit", "clip", "inputs", "idx", "expand", "ssm", "stride", "blocks",
        "block", "num", "k", "lora", "switch",
    }
)  # fmt: skip
"""A number's name has one of these words."""
SPECIAL = re.compile(r"(?:pad|bos|eos)_token_id\Z")
MOST_ENDS, LEAST_RANGE = 4, 4
MOST_LAYERS, MOST_AXES, SMALL = 1024, 8, 256

_HEAD = re.compile(r"([a-z]+): (.*)\Z")
_BARE = re.compile(r"[A-Za-z][\w./:-]{0,60}\Z", re.ASCII)
_ROW = re.compile(r"\d+[\s,;]+\d+")


def private(name: str, text: str, raw_ids: bool) -> Iterator[tuple[int, str]]:
    """Line and kind of what could be token ids in a part; with `raw_ids` they were asked for."""
    if name not in PARTS:
        return
    labels = 0
    for number, key, document in _documents(name, text):
        try:
            value = json.loads(document, object_pairs_hook=_pairs)
        except _TwiceError:
            yield number, "a name that stands twice in one object"
            continue
        except (ValueError, RecursionError):
            yield number, "a line that cannot be searched"
            continue
        if raw_ids:
            continue
        own = name == "model.json" and isinstance(value, dict) and value.get("from") == "checkpoint"
        yield from ((number, kind) for kind in _walk(key, value, own))
        if name in ("trace.yaml", "tokens.jsonl"):
            for ident in _ids(value):
                if not 0 < ident <= labels + 1:
                    yield number, "a token id that is no label"
                labels = max(labels, min(ident, labels + 1))


class _TwiceError(ValueError):
    """A name twice: a reader keeps one of the values, and would search only that."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _TwiceError
    return value


def _documents(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Line, name of the whole value, and the JSON itself; a trace's bare words become strings."""
    if name.endswith(".json"):
        yield 1, "", text
        return
    for number, line in enumerate(text.splitlines(), 1):
        head = _HEAD.match(line) if name in TRACES else None
        if name in TRACES and (line == "steps:" or not line):
            continue
        if head is not None:
            bare = _BARE.match(head[2])
            yield number, head[1], json.dumps(head[2]) if bare else head[2]
        else:
            yield number, "", line.removeprefix("- ")


def _walk(top: str, value: Any, own: bool) -> Iterator[str]:
    waiting = [(top, value)]
    while waiting:
        key, one = waiting.pop()
        if key in MAPPINGS and isinstance(one, dict):
            yield from _mapping(one)
        elif key == "tokens" and isinstance(one, dict):
            yield from _special(one, own)
        elif key == "layers" and isinstance(one, list):
            if not _ascending(one):
                yield "a list that is none of layers"
        elif key == "argmax":
            yield "a token id"
        elif isinstance(one, dict):
            if any(name.strip("-").isdigit() for name in one):
                yield "a number as a name"
            waiting.extend(one.items())
        elif isinstance(one, list):
            numbers = [item for item in one if isinstance(item, int | float)]
            if numbers and key not in (*POSITIONS, *SHAPES, "ids"):
                yield f"a list of numbers under {key!r}"
            if key in SHAPES and len(numbers) > MOST_AXES:
                yield "a shape of too many axes"
            waiting.extend((key, item) for item in one)
        elif isinstance(one, str) and key in SPOKEN and one.strip() and not any(c.isalpha() for c in one):
            yield "numbers without a word"


def _mapping(value: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[tuple[str, Any]] = list(value.items())
    while waiting:
        key, one = waiting.pop()
        if key[:1].isdigit():
            yield "a number as a name"
        elif isinstance(one, dict):
            waiting.extend(one.items())
        elif isinstance(one, list):
            numbers = [item for item in one if isinstance(item, int | float) and not isinstance(item, bool)]
            if numbers and not _may_be(key, numbers):
                yield f"a list of numbers under {key!r}"
            waiting.extend((key, item) for item in one if isinstance(item, dict | list | str))
        elif isinstance(one, str):
            if _ROW.search(one) or (one.isdigit() and len(one) > 2):
                yield f"numbers as text under {key!r}"
        elif isinstance(one, int | float) and not isinstance(one, bool) and not _counts(key):
            yield f"a number under {key!r}"


def _counts(key: str) -> bool:
    return bool(COUNTED & set(key.lower().split("_"))) or SPECIAL.match(key) is not None


def _may_be(key: str, numbers: list[Any]) -> bool:
    """Layers, flags, one value for each layer, a few small parts, or factors."""
    if SPECIAL.match(key):
        return len(numbers) <= MOST_ENDS
    few = len(set(numbers)) <= min(SMALL // 32, max(len(numbers) // 2, 1)) and len(numbers) > 2
    small = len(numbers) <= 4 and all(0 <= one <= SMALL for one in numbers)
    factors = any(one % 1 for one in numbers if abs(one) < float("inf"))
    return _ascending(numbers) or set(numbers) <= {0, 1} or few or small or factors


def _ascending(numbers: list[Any]) -> bool:
    whole = all(isinstance(one, int) and 0 <= one < MOST_LAYERS for one in numbers)
    return whole and all(a < b for a, b in pairwise(numbers))


def _special(tokens: Mapping[str, Any], own: bool) -> Iterator[str]:
    """Padding, a few ends, ranges; `own`: read from a tokenizer, whose control tokens may be listed."""
    eos = tokens.get("eos") or []
    if not isinstance(eos, list) or len(eos) > MOST_ENDS:
        yield "too many ids that end an answer"
        return
    if tokens.get("control") and not own:
        yield "a list of control ids"
    stop = tokens.get("stop") or []
    if not isinstance(stop, list) or any(one not in (tokens.get("pad"), *eos) for one in stop):
        yield "stop ids that are not special"
    for pair in tokens.get("reserved") or []:
        if not isinstance(pair, list) or len(pair) != 2 or pair[1] - pair[0] < LEAST_RANGE - 1:
            yield "a reserved id that is no range"


def _ids(value: Any) -> Iterator[int]:
    """Emitted ids, in the order in which they stand."""
    rows = value.get("rows", [value]) if isinstance(value, dict) else []
    for row in rows if isinstance(rows, list) else []:
        ids = row.get("ids") if isinstance(row, dict) else None
        yield from (one for one in ids or () if isinstance(one, int)) if isinstance(ids, list) else ()
