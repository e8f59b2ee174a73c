"""What each sequence generated, as token classes and relabelled ids, watched for collapse.

One `Stream` a sequence, of bounded size whatever the length of the answer; `Streams` holds the
unfinished ones. Nothing here knows a text or a real id: a class is one letter of `TOKEN_CLASSES`, and
ids only say which tokens are equal.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from mlxdiag.inspect.stream import Stream
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Row, Tokens

OPEN_STREAMS = 512
"""Beyond this the one silent longest is judged and forgotten: not every program records a finish."""
FINISHED = 4096

Key = tuple[str | None, str | None]


class Fact(NamedTuple):
    """Something a stream showed. The rules of MD6 turn facts into findings."""

    kind: str
    seq: str | None
    step: int | None
    onset: int
    """Generated token at which it begins; the first one is 0."""
    evidence: dict[str, Any]
    prompt: int | None = None
    """Length of the prompt, where it is known."""
    adopted: bool = False
    joins: tuple[int, ...] = ()
    """How many tokens had been generated whenever another sequence joined."""


BAD = ("reserved", "pads", "zeros", "short-cycle", "long-cycle", "flood")
"""Kinds that mean degenerate output (MD601 to MD606)."""


class Tally(NamedTuple):
    """Finished answers by whether another sequence was active meanwhile."""

    clean_alone: int = 0
    bad_alone: int = 0
    clean_together: int = 0
    bad_together: int = 0


def row_key(entry: Entry, row: Row) -> Key | None:
    """Who the row is. A nameless row is known only while it is alone in its step."""
    if row.seq is None and len(entry.rows or ()) > 1:
        return None
    return (entry.model, row.seq)


def classify(ident: int, tokens: Tokens | None) -> str:
    """Class of a real id: a pad that is also an EOS is an EOS, a registered control id is not reserved.

    Id 0 stays id 0 where it is a control token: it is what an argmax over NaN gives, whatever its name.
    """
    if tokens is not None:
        if ident in (tokens.eos or ()):
            return "e"
        if ident == tokens.pad:
            return "p"
        if ident in (tokens.control or ()):
            return "c" if ident else "0"
        if any(low <= ident <= high for low, high in tokens.reserved or ()):
            return "r"
    return "0" if ident == 0 else "t"


class Streams:
    """Every unfinished sequence of a trace. Feed it each entry; `new` then holds what that entry showed."""

    def __init__(self) -> None:
        self.new: list[Fact] = []
        self.tally = Tally()
        self._tokens: Tokens | None = None
        self._raw = False
        self._ended = False
        self._open: OrderedDict[Key, Stream] = OrderedDict()
        self._finished: OrderedDict[Key, None] = OrderedDict()

    def feed(self, entry: Entry, tokens: Tokens | None, raw: bool = False) -> None:
        """Take an entry; `tokens` are the special tokens of its model, `raw` says that ids are real ones."""
        self._tokens, self._raw = tokens, raw
        if self.new:
            self.new = []
        if not entry.rows:
            return
        phase = entry.kind
        for position, row in enumerate(entry.rows):
            key = row_key(entry, row)
            if key is None:
                continue
            kind = row.phase or phase
            stream = self._open.get(key)
            if stream is None:
                if key in self._finished and not _begins(kind, row):
                    continue
                stream = self._start(key)
            elif len(self._open) > 1:
                stream.alone = False
            if kind == "adopt" and entry.refused is None and (row.restored or row.matched):
                stream.adopted = True
            if row.emitted is not None or row.classes or row.ids:
                self._emit(stream, entry, position, row)
            if row.finish is not None:
                self._finish(key, stream, entry.step, row.finish)

    def steady(self, key: Key) -> bool:
        """Whether the stream is in plain text, so that a further text token crosses no threshold."""
        stream = self._open.get(key)
        return stream is not None and stream.counted and not (stream.trailing or stream.zero_run)

    def advance(self, key: Key, tokens: int, ids: list[int] | None) -> None:
        """Take a run of plain text tokens at once. The stream must be `steady`."""
        stream = self._open.get(key)
        if stream is None:
            return
        if len(self._open) > 1:
            self._open.move_to_end(key)
        stream.extend(tokens, ids)

    def ending(self) -> list[Fact]:
        """At the end of the trace: what the answers that were still open show. Asked again, the same."""
        if not self._ended:
            self._ended = True
            self.new = []
            while self._open:
                key, stream = next(iter(self._open.items()))
                self._finish(key, stream, None, None)
        return self.new

    def _start(self, key: Key) -> Stream:
        self._finished.pop(key, None)
        stream = Stream(key[1])
        for other in self._open.values():
            other.alone = stream.alone = False
            other.joins.append(other.count)
        self._open[key] = stream
        if len(self._open) > OPEN_STREAMS:
            oldest, silent = next(iter(self._open.items()))
            self._finish(oldest, silent, None, None)
        return stream

    def _emit(self, stream: Stream, entry: Entry, position: int, row: Row) -> None:
        if len(self._open) > 1:
            self._open.move_to_end((entry.model, stream.seq))
        if not stream.counted:
            stream.counted = True
            stream.prompt = row.total
            if row.total is None and row.offset is not None and row.tokens is not None:
                stream.prompt = row.offset + row.tokens
        if _nonfinite(entry, position, row):
            stream.nonfinite = True
        letters, ids = row.classes, row.ids
        if letters is None:
            if ids is None:
                stream.count += row.emitted or 0
                stream.spoken += row.emitted or 0
                return
            # Relabelled ids say only which tokens are equal.
            letters = "".join(classify(i, self._tokens) for i in ids) if self._raw else "t" * len(ids)
        elif ids is not None and len(ids) != len(letters):
            ids = None
        for at, letter in enumerate(letters):
            ident = ids[at] if ids is not None else None
            for found in stream.push(self._settle(letter, ident), ident):
                self._tell(stream, entry.step, *found)

    def _settle(self, letter: str, ident: int | None) -> str:
        """The recorder's class, corrected by what the checkpoint registers."""
        tokens = self._tokens
        if tokens is None or letter not in "pr":
            return letter
        if letter == "p":
            return "e" if tokens.pad is not None and tokens.pad in (tokens.eos or ()) else "p"
        return "c" if self._raw and ident in (tokens.control or ()) else "r"

    def _tell(
        self, stream: Stream, step: int | None, kind: str, index: int, evidence: dict[str, Any]
    ) -> None:
        if kind in stream.told:
            return
        stream.told.add(kind)
        if kind in BAD:
            stream.bad = True
        context = (stream.prompt, stream.adopted, tuple(stream.joins))
        self.new.append(Fact(kind, stream.seq, step, index, evidence, *context))

    def _finish(self, key: Key, stream: Stream, step: int | None, finish: str | None) -> None:
        for found in stream.at_end():
            self._tell(stream, step, *found)
        if finish == "repetition":
            self._tell(stream, step, "guard", stream.count, {"generated": stream.count})
        if finish == "length" and stream.bad:
            self._tell(stream, step, "unstopped", stream.count, {"generated": stream.count})
        if finish == "eos" and stream.adopted and stream.counted and stream.spoken == 0:
            self._tell(stream, step, "empty", 0, {"generated": stream.count})
        if stream.count:
            field = ("bad" if stream.bad else "clean") + ("_alone" if stream.alone else "_together")
            self.tally = self.tally._replace(**{field: getattr(self.tally, field) + 1})
        del self._open[key]
        self._finished[key] = None
        if len(self._finished) > FINISHED:
            self._finished.popitem(last=False)


def _begins(kind: str, row: Row) -> bool:
    """Does the row start a new answer under a name that has finished?"""
    return kind in ("adopt", "load") or (
        kind in FORWARD_PHASES and kind != "decode" and (row.tokens or 0) > 0
    )


def _nonfinite(entry: Entry, position: int, row: Row) -> bool:
    """Null and "nan" log-probabilities of a chosen token count; a missing one does not."""
    if row.logprob is None or row.logprob == "nan":
        return True
    outputs = entry.output or []
    if len(outputs) == len(entry.rows or ()):
        outputs = outputs[position : position + 1]
    return any(o.nan or o.inf or o.logprob is None or o.logprob == "nan" for o in outputs)
