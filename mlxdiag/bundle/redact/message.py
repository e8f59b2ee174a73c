"""One message of a log, made fit for strangers: named rules first, then every word held to the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Match

from mlxdiag.bundle.redact import clauses, commands, counters, heads, jsontext, keyed, paths, vouched
from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.pseudonym import Pseudonyms
from mlxdiag.bundle.redact.rules import RULES
from mlxdiag.bundle.redact.vocabulary import Vocabulary

LONGEST_QUOTE = 4
"""Words. Libraries quote names; what is quoted at greater length is somebody's text."""
MOST_UNKNOWN = 0.4
"""Share of unknown words above which a message is somebody's text, whatever its other words are."""
SHORTEST_NUMBER = 9
"""Digits from which a number is not likely to be a length or an offset as well."""
LONGEST_SHAPE = 8
"""Integers. Shapes have six axes at most, scheduler counts a few more; token ids come in hundreds."""

MOST_TIMES = 2
"""Times in one message: its own, and one that it tells of."""

_ID = next(rule for rule in RULES if rule.name == "id")
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKED = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_COMMIT = re.compile(
    r"\b(?:commit|rev|revision|HEAD|main@)[\s:=@(]+(?=[0-9a-f]*[a-f])(?:[0-9a-f]{7,9}|[0-9a-f]{40})\b(?![0-9a-f])"
)
_BUILD = re.compile(r"\bbuild: \d{3,5} \([0-9a-f]{7,9}\)")
_VERSION = re.compile(
    r"(?<![\w.])(?P<key>[A-Za-z][\w.-]*?)(?P<sep>[ =:@(/-]+v?)\d+(?:\.\d+){1,3}(?:[.-]?(?:dev|rc|post|alpha|beta|a|b)\.?\d*)?"
    r"\+(?:g?[0-9a-f]{7,9}|cu\d+|cpu)(?!\w)"
)
_LOOPBACK = re.compile(
    r"\bhttps?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d{1,5})?(?P<path>(?:/v1|/api)?"
    r"(?:/(?:chat/completions|completions?|chat|models|embeddings|responses|messages|generate|tags|health|metrics|version))?/?)"
    r"(?=[\s\"',.)\]]|$)"
)
_MATRICES = re.compile(r"\(\d{1,7}x\d{1,7} and \d{1,7}x\d{1,7}\)")
"""As torch tells of shapes that cannot be multiplied."""
_LETTERS = re.compile(
    r"(?<![\w.'])[A-Za-z](?:[ ._*\u00b7-]{1,3}[A-Za-z]){3,}(?![\w'])"
    r"|(?<!\w)[A-Za-z](?:(?:[,|/:;]|, )[A-Za-z]){4,}(?!\w)"
)
_PAIRS = re.compile(
    r"(?<!\w)(?=[0-9A-Fa-f :,-]*\d)(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:-]+){4,}[0-9A-Fa-f]{2}(?!\w)"
)
_ESCAPES = re.compile(
    r"(?:\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|&#x?[0-9A-Fa-f]{2,6};|(?<=\w)%[0-9A-Fa-f]{2}(?=\w))\S*"
)
_POINTER = re.compile(r"(?<!\w)0x[0-9a-fA-F]+(?!\w)")
_HEX_TEXT = re.compile(r"(?<!\w)(?=[0-9a-fA-F]*[a-fA-F])(?=[0-9a-fA-F]*\d)(?:[0-9a-fA-F]{2}){4,}(?!\w)")
_ROW_OF_NUMBERS = re.compile(r"\[n\](?:[\s,;|/.-]+\[n\]){2,}")
_HEX = re.compile(r"(?<!\w)(?:0x)?[0-9a-fA-F]{16,}(?!\w)")
_ENCODED = re.compile(r"(?<![\w/+=-])[A-Za-z0-9+/_=-]{20,}={0,2}")
_INTEGERS = re.compile(
    rf"[\[(]?-?\d+(?:\s*[,;]\s*|\s+)(?:-?\d+(?:\s*[,;]\s*|\s+)){{{LONGEST_SHAPE - 1},}}-?\d+[\])]?"
)
_REQUEST_LINE = re.compile(r"[A-Z]{3,7} /\S* HTTP/[\d.]+\Z")
_QUOTE = re.compile(
    r"(?P<before>\bmsg=)?(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|(?<!\w)'(?P<single>(?:[^'\\]|\\.)*)'(?!\w)"
    r"|`(?P<back>[^`]*)`)"
)
_ROW_OF_QUOTES = re.compile(r"(?:([\"'])[A-Za-z][\w ]*\1\s*[,;|]?\s*){3,}")
_NO_MEASURE = re.compile(r"\d+\.\d+[A-Za-z]{1,3}\Z")
_UNCLOSED = re.compile(r"\"|(?<!\w)'(?=\w)|`")
_WORD = re.compile(r"[^\W_][\w./+%$&*~^-]*|_+\w[\w./+-]*")


class Messages:
    """Cleans messages into one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        vocabulary: Vocabulary,
        pseudonyms: Pseudonyms,
        facts: Iterable[str] = (),
    ) -> None:
        """`facts`: this machine's user, host and folder names, and those that the logs themselves show."""
        self.ledger = ledger
        self.vocabulary = vocabulary
        self.pseudonyms = pseudonyms
        self._marks: list[str] = []
        self._judges_sentences = True
        self._facts: re.Pattern[str] | None = None
        self.learn(facts)

    def learn(self, facts: Iterable[str]) -> None:
        """Names to take out wherever they stand as a word; the longest first."""
        ordered = sorted({fact for fact in facts if fact}, key=lambda fact: (-len(fact), fact))
        pattern = "|".join(map(re.escape, ordered))
        self._facts = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.IGNORECASE) if ordered else None
        )

    def apart(self, kept: Iterable[str]) -> Messages:
        """A cleaner with the same facts, to which these words are known too, and with a ledger of its own."""
        vocabulary = Vocabulary(self.vocabulary.kept | frozenset(kept))
        other = Messages(Ledger(), vocabulary, self.pseudonyms)
        other._facts = self._facts
        other._judges_sentences = False  # what it is asked about are this program's own
        return other

    def clean(self, text: str, *, source: bool = False, command: bool = False) -> str:
        """The message with placeholders; a message of mostly unknown words becomes its length.

        `source`: it is a line of a library's program text. `command`: it is a command line.
        """
        self._marks = []
        original = text
        if not text.isascii() or not text.isprintable():
            text = "".join(c if c.isprintable() and c not in (_OPEN, _CLOSE) else " " for c in text)
        text = jsontext.clean(text, self)
        if self._facts is not None:
            text = self._facts.sub(lambda m: self._put("machine", m.group(), "[name]"), text)
        text = self._protect(text)
        for rule in RULES:
            text = rule.pattern.sub(lambda m, rule=rule: self._replace(m, rule.name, rule.put), text)  # type: ignore[misc]
            if rule.name == "url":
                text = paths.clean(text, self.vocabulary, self._put)
        text = keyed.clean(text, self.vocabulary, self._put, source=source)
        if command or commands.is_flagged(text):
            text = commands.clean(text, _MARKED, self.vocabulary, self._put, whole=command)
        text = self._encoded(text, source=source)
        text = vouched.clean(text, self._shadow(text), self.vocabulary, self._put, source=source)
        text = self._quotes(text, source=source)
        text, unknown, known = self._words(text)
        if self._judges_sentences and not command:
            text = self._sentences(text, clauses.NEVER_IN_PROGRAMS if source else clauses.STRONG)
        if unknown >= 3 and unknown > MOST_UNKNOWN * (unknown + known):
            self.ledger.take("message", original)
            return f"[message left out: {unknown + known} words]"
        return self._expand(text)

    def name(self, text: str) -> str | None:
        """A free name, or None where a part of it is not known to be public, or where it is an id."""
        known = text.isascii() and self.vocabulary.knows(text) and not _ID.pattern.search(text)
        return text if known else None

    def inner(self, text: str) -> str:
        """A message inside of a message, cleaned with the same rules."""
        outer, self._marks = self._marks, []
        try:
            return self.clean(text)
        finally:
            self._marks = outer

    def take(self, rule: str, original: str) -> None:
        """Count a removal; what had been removed from it before is not its own.

        A number that nothing vouched for is not looked for again: the same digits count something elsewhere.
        """
        if rule == "integer":
            self.ledger.take(rule)
            return
        self.remember(rule, original)
        self.ledger.take(rule)

    def remember(self, rule: str, original: str) -> None:
        """Look for what was removed in the finished bundle, where finding it would mean anything."""
        for piece in _MARKED.split(original)[::2]:
            if self._tells(piece):
                self.ledger.take(rule, piece, count=0)

    def _tells(self, text: str) -> bool:
        """Whether finding it again would mean anything: known words and short numbers stand elsewhere too."""
        if any(c.isalpha() for c in text):
            return any(not self.vocabulary.knows(word) for word in _WORD.findall(text))
        long = sum(c.isdigit() for c in text) >= SHORTEST_NUMBER or text.count(".") == 3
        return long and len(text.split()) == 1

    def _put(self, rule: str, original: str, mark: str) -> str:
        self.take(rule, original)
        return self.keep(self.pseudonyms.of(original) if rule == "hash" else mark)

    def keep(self, text: str) -> str:
        """A mark in place of `text`, which no later rule looks into."""
        self._marks.append(text)
        return f"{_OPEN}{len(self._marks) - 1}{_CLOSE}"

    def _replace(self, match: Match[str], rule: str, mark: str) -> str:
        groups = match.groupdict()
        front = groups.get("keep") or groups.get("keep2") or ""
        return front + self._put(rule, match.group()[len(front) :], mark)

    def _protect(self, text: str) -> str:
        """Days with their times, and commits and versions, which a later rule would take for something else."""
        text = heads.times().sub(lambda m: self.keep(m.group()), text, count=MOST_TIMES)
        for pattern in (_COMMIT, _BUILD, _MATRICES, _LOOPBACK):
            text = pattern.sub(lambda m: self.keep(m.group()), text)


        def version(match: Match[str]) -> str:
            known = match["key"].lower() in counters.words("libraries")
            return (
                match["key"] + match["sep"] + self.keep(match.group()[match.end("sep") - match.start() :])
                if known
                else match.group()
            )

        return _VERSION.sub(version, text)

    def _encoded(self, text: str, *, source: bool) -> str:
        if not source:
            for pattern in (_LETTERS, _PAIRS, _ESCAPES):
                text = pattern.sub(lambda m: self._put("encoded", m.group(), "[encoded]"), text)
        text = _HEX.sub(self._hash, text)
        for pattern in (_POINTER, _HEX_TEXT):
            text = pattern.sub(lambda m: self._put("encoded", m.group(), "[hex]"), text)
        text = _INTEGERS.sub(self._integers, text)

        def judge(match: Match[str]) -> str:
            pieces = match.group().split("=")
            if all(piece.isdigit() or self.vocabulary.knows(piece) for piece in pieces):
                return match.group()  # of a number the next rule decides
            return self._put("encoded", match.group(), "[encoded]")

        return _ENCODED.sub(judge, text)

    def _hash(self, match: Match[str]) -> str:
        return self._put("hash", match.group(), "")

    def _integers(self, match: Match[str]) -> str:
        count = len(re.findall(r"\d+", match.group()))
        return self._put("integers", match.group(), f"[{count} integers]")

    def _shadow(self, text: str) -> str:
        """`text` with fillers for the marks: one for source files, behind which a line's number stands."""

        def filler(match: Match[str]) -> str:
            source = self._marks[int(match[1])].endswith(paths.SOURCES)
            return (vouched.SOURCE if source else vouched.HIDDEN) * len(match.group())

        return _MARKED.sub(filler, text)

    def _sentences(self, text: str, strong: frozenset[str]) -> str:
        for start, end in sorted(clauses.sentences(text, strong), reverse=True):
            text = text[:start] + self._put("sentence", text[start:end], "[text]") + text[end:]
        return text

    def _quotes(self, text: str, *, source: bool) -> str:
        if not source:
            text = _ROW_OF_QUOTES.sub(lambda m: self._put("quoted", m.group(), "[text]"), text)
        text = _QUOTE.sub(self._quoted, text)
        open_quote = _UNCLOSED.search(text)
        if open_quote is not None:
            rest = text[open_quote.end() :]
            if _WORD.search(rest):
                text = text[: open_quote.end()] + self._put("quoted", rest, "[text]")
        return text

    def _quoted(self, match: Match[str]) -> str:
        inside = next(
            group for group in (match["double"], match["single"], match["back"]) if group is not None
        )
        chunks = _WORD.findall(_MARKED.sub(" ", inside))
        known = all(chunk.isascii() and self.vocabulary.knows(chunk) for chunk in chunks)
        words = sum(any(c.isalpha() for c in chunk) for chunk in chunks)
        short = words <= LONGEST_QUOTE or clauses.is_said(inside) or _REQUEST_LINE.match(_MARKED.sub("", inside))
        start = match.group()[: match.group().index(inside)] if inside else match.group()[:-1]
        if match["before"] or not chunks:
            return self.keep(start) + inside + self.keep(match.group()[-1])
        spoken = words > 1 and not clauses.is_said(inside) and not clauses.STRONG.isdisjoint(inside.lower().split())
        if known and short and not spoken:
            return self.keep(match.group())
        return self.keep(start) + self._put("quoted", inside, "[text]") + self.keep(match.group()[-1])

    def _words(self, text: str) -> tuple[str, int, int]:
        """Unknown words replaced, and how many there were of either."""
        counts = [0, 0]

        def judge(match: Match[str]) -> str:
            word = match.group()
            rooted = match.string[match.start() - 1 : match.start()] == "/"
            known = word.isascii() and (vouched.is_measure(word) or self._knows(word, rooted))
            counts[known] += any(c.isalpha() for c in word)
            slashed = "/" in word and self.vocabulary.knows(word)
            return word if known else self._put("path" if slashed else "word", word, "[path]" if slashed else "[word]")

        pieces = _MARKED.split(text)
        for index in range(0, len(pieces), 2):
            pieces[index] = _WORD.sub(judge, pieces[index])
        joined = "".join(f"{_OPEN}{one}{_CLOSE}" if index % 2 else one for index, one in enumerate(pieces))
        joined = re.sub(r"\\+(?=[\w\[\ue000])", " ", joined)  # no path, and no escape either
        joined = "".join(c if c.isascii() or c in (_OPEN, _CLOSE) else "?" for c in joined)
        return joined, counts[0], counts[1]

    def _knows(self, word: str, rooted: bool) -> bool:
        """Words of the list; with a slash between them only where it is no folder of somebody's."""
        if _NO_MEASURE.match(word) or not self.vocabulary.knows(word):
            return False
        return "/" not in word or paths.is_plain(word, self.vocabulary, rooted=rooted)

    def _expand(self, text: str) -> str:
        before = None
        while before != text:
            before = text
            text = _MARKED.sub(lambda m: self._marks[int(m.group(1))], text)
        text = _ROW_OF_NUMBERS.sub(lambda m: f"[{m.group().count('[n]')} integers]", text)
        return re.sub(r"(?:\[word\][\s,]*){2,}(?=\[word\])", "", text)
