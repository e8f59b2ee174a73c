"""One message of a log, made fit for strangers: named rules first, then every word held to the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Match

from mlxdiag.bundle.redact import clauses, commands, encoded, jsontext, keyed, paths, spared, vouched
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

SURE = ("secret", "machine")
"""Rules whose single words are looked for again: what others took may be a word of our sentences."""

_ID = next(rule for rule in RULES if rule.name == "id")
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKED = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_ENDLESS = re.compile(r"[^\s,;:\"'(){}\[\]<>=|]{300,}")
"""Longer than any name or path."""
_ROW_OF_NUMBERS = re.compile(r"\[n\](?:[\s,;|/.-]+\[n\]){2,}")
_REQUEST_LINE = re.compile(r"[A-Z]{3,7} /\S* HTTP/[\d.]+\Z")
_QUOTE = re.compile(
    r"(?P<before>\bmsg=)?(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|(?<!\w)'(?P<single>(?:[^'\\]|\\.)*)'(?!\w)"
    r"|`(?P<back>[^`]*)`)"
)
_ROW_OF_QUOTES = re.compile(r"(?:([\"'])[A-Za-z][\w ]*\1\s*[,;|]?\s*){3,}")
_SCIENTIFIC = re.compile(r"\d(?:\.\d{1,6})?e[-+]?\d{1,2}\Z")
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
        text = _ENDLESS.sub(self._endless, text)
        text = jsontext.clean(text, self)
        if self._facts is not None:
            text = self._facts.sub(lambda m: self._put("machine", m.group(), "[name]"), text)
        text = spared.clean(text, self.keep)
        for rule in RULES:
            text = rule.pattern.sub(lambda m, rule=rule: self._replace(m, rule.name, rule.put), text)  # type: ignore[misc]
            if rule.name == "url":
                text = paths.clean(text, self.vocabulary, self._put)
        text = keyed.clean(text, self.vocabulary, self._put, source=source)
        if command or commands.is_flagged(text):
            text = commands.clean(text, _MARKED, self.vocabulary, self._put, whole=command)
        text = encoded.clean(text, self.vocabulary, self._put, source=source)
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
            loose = piece.isalpha() and piece.islower() and rule not in SURE
            if not loose and self._tells(piece):
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

    def _endless(self, match: Match[str]) -> str:
        self.take("encoded", match.group())
        return "[encoded]"

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
        short = (
            words <= LONGEST_QUOTE or clauses.is_said(inside) or _REQUEST_LINE.match(_MARKED.sub("", inside))
        )
        start = match.group()[: match.group().index(inside)] if inside else match.group()[:-1]
        if match["before"] or not chunks:
            return self.keep(start) + inside + self.keep(match.group()[-1])
        spoken = (
            words > 1
            and not clauses.is_said(inside)
            and not clauses.STRONG.isdisjoint(inside.lower().split())
        )
        if known and short and not spoken:
            return self.keep(match.group())
        return self.keep(start) + self._put("quoted", inside, "[text]") + self.keep(match.group()[-1])

    def _words(self, text: str) -> tuple[str, int, int]:
        """Unknown words replaced, and how many there were of either."""
        counts = [0, 0]
        said = clauses.said(text)
        offset = 0

        def judge(match: Match[str]) -> str:
            word = match.group()
            if offset + match.start() in said and word.rstrip(".").isalpha():
                counts[1] += 1
                return word
            rooted = match.string[match.start() - 1 : match.start()] == "/"
            known = word.isascii() and (vouched.is_measure(word) or self._knows(word, rooted))
            counts[known] += any(c.isalpha() for c in word)
            slashed = "/" in word and self.vocabulary.knows(word)
            return (
                word
                if known
                else self._put("path" if slashed else "word", word, "[path]" if slashed else "[word]")
            )

        pieces = _MARKED.split(text)
        for index, piece in enumerate(pieces):
            if index % 2 == 0:
                pieces[index] = _WORD.sub(judge, piece)
            offset += len(piece) + (len(_OPEN + _CLOSE) if index % 2 else 0)
        joined = "".join(f"{_OPEN}{one}{_CLOSE}" if index % 2 else one for index, one in enumerate(pieces))
        joined = re.sub(r"\\+(?=[\w\[\ue000])", " ", joined)  # no path, and no escape either
        joined = "".join(c if c.isascii() or c in (_OPEN, _CLOSE) else "?" for c in joined)
        return joined, counts[0], counts[1]

    def _knows(self, word: str, rooted: bool) -> bool:
        """Words of the list; with a slash between them only where it is no folder of somebody's."""
        if not any(c.isalpha() for c in word):
            return True  # a number that something vouched for
        if _SCIENTIFIC.match(word):
            return True
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
