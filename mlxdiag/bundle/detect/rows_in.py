"""Rows of numbers in a log's line: shapes are short and stand behind what they are the shape of; token ids
are neither."""

from __future__ import annotations

import re
from collections import Counter

MOST_AXES = 8
FEWEST = 3
"""Numbers in a row that nothing explains."""
LARGE = 1000
MOST_LARGE = 2
"""Positions and width: no shape has more lengths as large as that."""

_STAMP = re.compile(
    r"(?:20[23]\d[-/][01]\d[-/][0-3]\d|[01]\d-[0-3]\d)?(?: - |[T _])?(?:[01]\d"
    r"|2[0-3]):[0-5]\d:[0-6]\d(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?"
)
_NO_STAMP = re.compile(r"\d{2,4}-\d\d-\d\d[ T]\d\d:\d\d")
"""What looks like a time and is none."""
_UPTIME = re.compile(r"(?:^| )\d{1,4}\.\d\d\.\d{3}\.\d{3} [A-Z] ")
_LINE = re.compile(r"^ *\d+\| ")
_GROUP = re.compile(r"(?P<open>[\[({])(?P<inside>\s*-?\d+(?:[\s,;]+-?\d+)*\s*,?\s*)[\])}]")
_SHAPED = re.compile(
    r"(?:shapes?|sizes?|dims?|dimensions?|masks?|keys|key|values?|quer(?:y|ies)|caches?|offsets?|lengths?|lens|padding"
    r"|strides|weights?|bias|scales|logits|scores|states|b?float\d*|u?int\d+|bool|num_computed_tokens|window|grid|reshape"
    r"|seqlens|positions|got|expected)\W{0,4}$",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    r"(?:ids?|prompts?|tokens?|context|inputs?|outputs?|completion|array|tensor|decoded|sampled|argmax)\W{0,4}$",
    re.IGNORECASE,
)
_BARE = re.compile(r"(?<![\w.])-?\d+(?:(?:\s*[,;|/]\s*|\s+-\s+|\s+|-)-?\d+){2,}(?![\w.])")
_DOTTED = re.compile(r"(?<![\w.+-])\d+(?:\.\d+){2,}(?![\w.])")
_NAMED = re.compile(r"\b([A-Za-z]\w*)[ =:]{1,2}\d{3,}\b(?!\.)")
_WORDED = re.compile(
    r"\b(?!unused|reserved|extra|rtx|gtx|int|uint|float|bfloat|sha)[A-Za-z]+[-_]?\d{4,}\b", re.IGNORECASE
)


def private(line: str) -> bool:
    """Whether a row of numbers is no shape, no version and no time."""
    line = _UPTIME.sub(" ", _STAMP.sub(" ", _LINE.sub("", line)))
    if _NO_STAMP.search(line):
        return True
    rest: list[str] = []
    at = 0
    for match in _GROUP.finditer(line):
        if not _explained(line[: match.start()].rstrip("[( "), match):
            return True
        rest += [line[at : match.start()], " # "]
        at = match.end()
    line = "".join(rest) + line[at:]
    if any(_many(match.group()) for match in _BARE.finditer(line)):
        return True
    if any(_is_dotted_row(match.group()) for match in _DOTTED.finditer(line)):
        return True
    names = Counter(match.casefold() for match in _NAMED.findall(line))
    return len(_WORDED.findall(line)) > 1 or max(names.values(), default=0) > 2


def _explained(before: str, match: re.Match[str]) -> bool:
    numbers = [abs(int(digits)) for digits in re.findall(r"-?\d+", match["inside"])]
    if max(numbers) < LARGE // 10 and len(numbers) <= MOST_AXES:
        return True
    if _TOKENS.search(before):
        return len(numbers) < 2 or bool(re.search(r"num_\w*$|\bof tensors\W*$", before))
    if _SHAPED.search(before):
        return len(numbers) <= MOST_AXES
    large = sum(one >= LARGE for one in numbers)
    tuples = match["open"] == "(" and len(numbers) <= MOST_AXES and large <= MOST_LARGE
    return len(numbers) == 1 or tuples


def _many(text: str) -> bool:
    """A row of which most are longer than a digit or two."""
    numbers = re.findall(r"\d+", text)
    return len(numbers) >= FEWEST and sum(len(one) > 2 for one in numbers) >= 2


def _is_dotted_row(text: str) -> bool:
    parts = text.split(".")
    year = len(parts[0]) == 4 and parts[0].startswith("20")
    return any(len(part) > 3 for part in parts[year:])
