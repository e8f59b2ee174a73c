"""Which numbers of a message may stay: those for which something vouches.

A number may be a token id, a telephone or a password as well as a length, and nothing in it tells which. So
it stays only where what stands around it says what it counts (`counters.txt`), and becomes `[n]` elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import Match, Pattern

from mlxdiag.bundle.redact.counters import counts, is_shape, parts_of, plausible, words
from mlxdiag.bundle.redact.vocabulary import Vocabulary

Put = Callable[[str, str, str], str]

HIDDEN, SOURCE = "\ue000", "\ue001"
"""What stands in place of a placeholder, and in place of one for a file of program text."""
FEWEST_DIGITS = 2
MOST_ALIKE = 2
"""Longer numbers for which one name vouches in one message."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*(?:[eE][-+]?\d+)?")
_N = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_CHAIN = rf"(?P<n>{_N}(?:\s*(?:->|=>|/|\.\.|→)\s*{_N}|\s+of\s+{_N})?)"
_NO_LIST = (
    r"(?![\w%])(?!\.\d)(?!\s*(?:->|=>|\.\.)\s*\d)"
    r"(?!\s*[-,;|/:]\s*-?\d{2,}\b(?!\s*[A-Za-z=]))(?!\s+-?\d{2,}\b(?!\s*[A-Za-z%]))"
)
"""No list goes on behind the number."""
_BEHIND_KEY = re.compile(
    rf"(?P<key>#?[A-Za-z_][\w.#-]*)(?:\(\))?(?: \([A-Za-z/]+\))?[\"']?(?: [uif]\d\d?)?\s*(?:==?|:"
    rf"|>=|<=|<|>)\s*[\"'(\[]?\s*"
    rf"{_CHAIN}{_NO_LIST}"
)
_BEHIND_WORD = re.compile(rf"(?<![\w-])(?P<key>[A-Za-z]\w*)\s+(?:is |of |= ?)?\(?{_CHAIN}{_NO_LIST}")
_BEHIND_NAME = re.compile(rf"(?<!\w)--?(?P<key>[A-Za-z][\w-]*)[= ]{_CHAIN}(?![\w.])")
_BEFORE_UNIT = re.compile(
    rf"{_CHAIN}\s?(?:(?P<adjective>[A-Za-z]+) )?(?P<unit>%|[A-Za-z]+)(?![\w=(])(?:/s|-per-sec\w*)?"
)
_LIST = r"[\[(](?:\s*-?\d+\s*,?)*[\])]"
_SHAPE = re.compile(
    rf"(?P<key>[A-Za-z_][\w-]*)[\"']?(?:\s+is|\s+are|\s+of)?\s*[=:]?\s*[\"']?(?:torch\.)?(?:Size\()?"
    rf"(?P<lists>{_LIST}(?:\)?(?:,|;| and| x| vs\.?| into| to| with| ->| !=| =="
    rf"| but got)*(?: shapes?)?\s*{_LIST})*)"
)
_MAPPED = re.compile(rf"(?P<key>[A-Za-z_]+)=\{{(?:[{HIDDEN}]+: \d{{1,7}}(?:, )?)+\}}")
"""A number for each request, whose id is gone."""
_DASHED = re.compile(r"(?<![\w.])(?P<host>[A-Za-z][\w-]*):(?P<port>\d{2,5})(?![\w.:/-])")
_VERSIONED = re.compile(
    r"(?<![\w-])(?P<key>[A-Za-z][\w./-]*?)(?:\s*(?:[=<>~!]=|[=:(/@<>])\s*v?|\s+v?|-v?)(?P<n>(?:20\d\d|\d{1,3})(?:\.\d{1,3}){1,2})(?!\d|\.\d)"
)
STATUS = r"(?:[12]0\d|30\d|4[0-3]\d|451|499|50\d)"
_SAID: tuple[Pattern[str], ...] = tuple(
    map(
        re.compile,
        (
            r"\bv(?P<n>\d{1,3}(?:\.\d{1,3}){1,2})(?!\d|\.\d)",
            r"\bHTTP/(?P<n>\d\.\d)",
            rf"(?<=[\w)]\" )(?P<n>{STATUS})(?= [A-Z-]|$| -)",
            rf"\b(?P<n>{STATUS})(?= (?:Client Error|Server Error|OK\b|Not Found|Internal|Bad |Unauthorized))",
            rf"\b(?:HTTP|status)(?: code)?[ =:]+(?P<n>{STATUS})\b",
            r"\b(?:exit|status|error|return|exited with)(?: code)?[ =:]+(?P<n>\d{1,3})\b",
            r"\((?P<n>\d{1,7}) [<>]=? (?P<n2>\d{1,7})\)",
            r"\bfault: (?P<n>\d{1,2})\b",
            r"\bErrno (?P<n>\d{1,3})\b",
            r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\])(?::| on port |, port )(?P<n>\d{2,5})\b",
            r"(?P<n>127\.0\.0\.1|0\.0\.0\.0)(?![\w.]*\d)",
            rf"{SOURCE}(?:\(|:)(?P<n>\d{{1,5}}(?::\d{{1,3}})?)\b",
            r"[\w/.-]*[A-Za-z_]\w*\.(?:py|rs|cpp|c|h|hpp|cc|swift|metal|cu|cuh|go|mm)(?:\(|:)(?P<n>\d{1,5}(?::\d{1,3})?)\b",
            r"\bline (?P<n>\d{1,5})\b",
            # torch and numpy, in their own words
            r"\btensor [ab] \((?P<n>\d{1,7})\)",
            r"\((?P<n>\d{1,7}x\d{1,7} and \d{1,7}x\d{1,7})\)",
            r"\((?:size|length|dim(?:ension)?"
            r"|n)\s*=?\s*(?P<n>\d{1,7})(?: is different from (?P<n2>\d{1,7}))?\)",
            r"\b(?:length|size|dimension|limit|width|axis) \((?P<n>\d{1,7})\)",
            r"\b(?:got|have|has|expected|requires|contains|of|to) (?P<n>\d{1,7})(?: and (?P<n2>\d{1,7}))?"
            r"(?= (?:elements?|dimensions?|instead|arguments?|positional|items?)\b)",
            r"\b(?:got|dimensions: got) (?P<n>\d{1,3})(?: and (?P<n2>\d{1,3}))?\b",
            r"\bis different from (?P<n>\d{1,7})\)",
            r"\brm \[(?P<n>\d{1,7}), ?(?:end|(?P<n2>\d{1,7}))[)\]]",
            r"\b(?:n|max|min|num)_\w+ \((?P<n>\d{1,7})\)",
            r"\bkv\s+(?P<n>\d{1,3}):",
            rf"(?:127\.0\.0\.1|localhost|{HIDDEN}) (?P<n>{STATUS})$",
            # a record of loguru: module, function, line
            r"\| [A-Za-z_][\w.]*:[\w<>]+:(?P<n>\d{1,5})(?= - )",
            r"\((?P<n>0{6,7}[\da-f]{1,2})(?=:kIOGPU)",
            r"\bindex out of range \[(?P<n>\d{1,7})\]",
            r"\bMismatched elements: (?P<n>\d{1,9} / \d{1,9})",
            r"\b(?:left|right): (?P<n>\d{1,7})$",
            rf"\| (?P<n>{STATUS}) \|",
            r"\|\s?(?P<n>\d{1,6}/\d{1,6}) \[",
            r"(?<![\w-])-(?:c|n|ngl|b|ub|t|tb|np) (?P<n>\d{1,7})\b",
            r"\bid\s+(?P<n>\d{1,2})(?= \|)",
            r"\b[A-Za-z]+\[(?P<n>\d{1,2})\]",
            r"\bMD(?P<n>\d{3})\b",
            r"(?P<n>\d{1,3}%)",
            r"\[(?P<n>\d{1,2}:[0-5]\d(?::[0-5]\d)?<(?:\d{1,2}:[0-5]\d(?::[0-5]\d)?|\?))(?=, )",
            r"\((?P<n>\d{1,7}), ?\d{1,7}\) (?:window|range)\b",
        ),
    )
)
"""What vouches without a list: request lines, loopback ports, source lines, the libraries' errors."""

_SMALL = re.compile(r"\d\.\d{1,2}\Z|0\.\d{1,17}\Z|\d(?:\.\d{1,6})?[eE][-+]?\d{1,2}\Z")
_LONG = re.compile(r"(?<![\d.])\d{3,}(?![\d.])")
_ATTACHED = re.compile(r"[A-Za-z]{1,8}(?!\w)")
_MEASURE = re.compile(r"(?P<n>\d+(?:\.\d+)?)(?P<unit>%|[A-Za-z]{1,8})(?:/s)?[.-]?\Z")
_COMPARED = re.compile(
    r"AssertionError|\b(?:argmax|greedy|tokens?|ids?|differ\w*|sampled|parity|position)\b", re.IGNORECASE
)
"""Where these are spoken of, what was expected may be a token."""
_OF_TOKENS = re.compile(r"\b(?:cache|prefix|block|hash) \Z")
"""A key before which these stand is one of a mapping, and made of tokens."""
_ROW_OF_DIGITS = re.compile(
    r"(?<![\w.])\d(?:[\s,;|/.-]+\d){4,}(?![\w.])|(?<![\w.])\d{1,2}(?:\.\d+)?(?:[\s,;|/-]+\d{1,2}(?:\.\d+)?){2,}(?![\w.])"
)
"""Small numbers in a row say together what one of them does not."""
_CHUNK = re.compile(r"[^\W_][\w./+%$&*~^-]*|_+\w[\w./+-]*")


def clean(text: str, shadow: str, vocabulary: Vocabulary, put: Put, *, source: bool = False) -> str:
    """`text` with every number for which nothing vouches replaced.

    `shadow`: the text with `HIDDEN` or `SOURCE` in place of what earlier rules put into it. `source`: it is a
    line of program text, where no list is a shape.
    """
    vouched = bytearray(len(text))
    named: dict[str, list[tuple[int, int]]] = {}
    for name, span in _vouched(shadow, source):
        named.setdefault(name, []).append(span)
    for name, spans in named.items():
        long = {span for span in spans if _LONG.search(shadow[slice(*span)])}
        if name and len(long) > (MOST_ALIKE if len(name) > 1 else 1):
            continue  # one name, and number after number: they do not count the same thing
        for start, end in spans:
            vouched[start:end] = b"\x01" * (end - start)
    for chunk in _CHUNK.finditer(shadow):
        if any(c.isalpha() for c in chunk.group()) and vocabulary.knows(chunk.group().rstrip(".,:;/-+")):
            vouched[chunk.start() : chunk.end()] = b"\x01" * len(chunk.group())
    alone = [match.span() for match in _ROW_OF_DIGITS.finditer(shadow)]
    done, at = [], 0
    for start, end in _taken(shadow, vouched, alone):
        done += [text[at:start], put("integer", text[start:end], "[n]")]
        at = end
    return "".join(done) + text[at:]


def _taken(shadow: str, vouched: bytearray, alone: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans of numbers that go; a machine's name before a port goes with it."""
    hosts = {
        match.start("port"): match
        for match in _DASHED.finditer(shadow)
        if not all(vouched[match.start("port") : match.end()])
    }
    at = 0
    for number in _NUMBER.finditer(shadow):
        start, end = number.span()
        if start < at or all(vouched[start:end]):
            continue
        unit = _ATTACHED.match(shadow, end)
        measured = unit is not None and is_measure(number.group() + unit.group())
        attached = shadow[start - 1 : start].isalpha() or (shadow[end : end + 1].isalpha() and not measured)
        alone_here = any(a <= start < b for a, b in alone)
        small = end - start < FEWEST_DIGITS or _SMALL.match(number.group()) is not None
        if attached or (small and not alone_here):
            continue
        host = hosts.get(start)
        if host is not None and host.start() >= at:
            start = host.start()
        at = end
        yield start, end


def _vouched(shadow: str, source: bool) -> Iterator[tuple[str, tuple[int, int]]]:
    """What vouches, by its name, and for which span; without a name what says it in a form of its own."""
    for match in _BEHIND_KEY.finditer(shadow):
        if counts(match["key"]) and _each_plausible(match["n"]):
            yield match["key"].lower(), _span(match)
    if source:
        return
    for match in _BEHIND_NAME.finditer(shadow):
        if counts(match["key"]) and _each_plausible(match["n"]):
            yield match["key"].lower(), match.span("n")
    yield from _behind_words(shadow)
    yield from _before_units(shadow)
    for match in _SHAPE.finditer(shadow):
        yield from (("", span) for span in _shapes(match))
    for match in _VERSIONED.finditer(shadow):
        if match["key"].lower().rstrip("=/.-") in words("libraries"):
            yield match["key"].lower(), match.span("n")
    for match in _MAPPED.finditer(shadow):
        if counts(match["key"]):
            yield "", match.span()
    for number, pattern in enumerate(_SAID):
        for match in pattern.finditer(shadow):
            for group in match.groupdict():
                if match[group] is not None:
                    yield f"form {number}", match.span(group)


def _behind_words(shadow: str) -> Iterator[tuple[str, tuple[int, int]]]:
    at = 0
    while match := _BEHIND_WORD.search(shadow, at):
        at = match.end("key")
        parts = parts_of(match["key"])
        if parts and parts[-1] == "expected" and _COMPARED.search(shadow):
            continue
        if parts and parts[-1] in words("blank") and _each_plausible(match["n"]):
            yield parts[-1], _span(match)


def _span(match: Match[str]) -> tuple[int, int]:
    """Of `len 1535 -> 1024` both, of `step 3 -> 4521` the first: a step does not become another."""
    start, end = match.span("n")
    arrow = re.search(r"\s*[-=]>", match["n"])
    placed = parts_of(match["key"])[-1] in (
        "step",
        "pos",
        "position",
        "row",
        "line",
        "i",
        "iter",
        "iteration",
    )
    return (start, start + arrow.start()) if arrow is not None and placed else (start, end)


def _before_units(shadow: str) -> Iterator[tuple[str, tuple[int, int]]]:
    at = 0
    while match := _BEFORE_UNIT.search(shadow, at):
        at = match.start() + 1
        unit, adjective = match["unit"].lower(), (match["adjective"] or "").lower()
        before = shadow[: match.start()].rstrip(" :=#")
        forbidden = re.search(r"([A-Za-z]+)$", before)
        if shadow[match.start() - 1 : match.start()].isalnum() or shadow[match.start() - 1 :][:1] == ".":
            continue
        if forbidden is not None and forbidden[1].lower() in words("never"):
            continue
        if adjective and adjective not in words("adjectives"):
            unit = adjective
        if unit == "x" and match.string[match.start("unit") - 1] == " ":
            continue  # `4521 x 30`: how often, and of what
        if (unit == "%" or unit in words("units")) and _each_plausible(match["n"], size=unit[-1:] in "bs"):
            yield unit, match.span("n")


def _shapes(match: Match[str]) -> Iterator[tuple[int, int]]:
    parts = parts_of(match["key"])
    known = match["key"].lower() in words("shapes") or (parts and parts[-1] in words("shapes"))
    at = match.start("lists")
    for one in re.finditer(_LIST, match["lists"]):
        numbers = [int(digits) for digits in re.findall(r"-?\d+", one.group())]
        weak = match["key"].lower() in words("weak") and one.group().startswith("(")
        if parts and parts[-1] in ("expected", "got") and _COMPARED.search(match.string):
            continue
        if parts == ["key"] and _OF_TOKENS.search(match.string, 0, match.start()):
            continue
        if len(numbers) == 1 and "," not in one.group() and _is_item(match, at + one.start()):
            continue
        sized = "Size(" in match.group()[: at - match.start()]
        if (known or weak or sized) and is_shape(match["key"], numbers):
            yield at + one.start(), at + one.end()


def _is_item(match: Match[str], at: int) -> bool:
    """Whether the one number in brackets is an item's index, `logits[4521]`, or a value, `tensor(4521)`."""
    attached = at == match.end("key")
    return attached and match["key"].lower().rstrip("0123456789") not in words("types")


def _each_plausible(text: str, *, size: bool = False) -> bool:
    return all(plausible(number, size=size) for number in _NUMBER.findall(text))


def is_measure(word: str) -> bool:
    """`12.4GB`, `1.5s`, `31%`: a number and its unit in one word."""
    match = _MEASURE.match(word)
    unit = match["unit"].lower() if match is not None else ""
    return (
        match is not None and unit in words("units") | {"%"} and plausible(match["n"], size=unit[-1] == "b")
    )
