"""One decoding loop of `generate`: whose rows it feeds, where it believes them to be, what it has said.

Lengths are known from shapes. The chosen tokens are read when the loop has had to wait for them itself: at
its next forward, or at its end. Where it never waits (the deferred stop check on MPS), at its end only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from mlxdiag.models.events import StepEvent
from mlxdiag.record.recorder import Named, Recorder
from mlxdiag.record.torch import requests
from mlxdiag.record.torch.announce import ids_of
from mlxdiag.record.torch.columns import Columns, columns_of
from mlxdiag.traces.types import Row

NEVER_WAITS = ("mps",)


class Threads(threading.local):
    """The loop that runs in this thread, the innermost where an assistant's runs inside another."""

    running: Generation | None = None


class Given(NamedTuple):
    """What a loop was called with."""

    model: Any
    ids: Any
    """[rows, prompt], by its shape."""
    config: Any
    left: list[int] | None
    """Padding in front of each row; None where it is not known."""
    right: list[int] | None
    """Padding behind the prompt of each row; None where there is none, or nothing tells."""
    beams: bool


class Generation:
    """Stateful, one for each loop."""

    def __init__(
        self,
        recorder: Recorder,
        given: Given,
        uids: list[int],
        held: int,
        outer: Generation | None,
    ) -> None:
        """`uids`: of the cache that the loop was given, which holds `held` tokens. `outer`: the loop that
        this one runs in.
        """
        config = given.config
        self.recorder = recorder
        self.model = given.model
        self.beams = given.beams
        self.outer = outer if getattr(config, "is_assistant", False) else None
        self.batch: int = given.ids.shape[0]
        self.prompt: int = given.ids.shape[1]
        self.limit = getattr(config, "max_length", None)
        self.ends = set(ids_of(getattr(config, "eos_token_id", None)))
        self.asked = getattr(config, "num_return_sequences", 1) or 1
        self.names = self._named(uids, held)
        self._held = held
        self.name: str | None = None
        """What events call the model."""
        self._base: int | None = None
        """Column of the first token that the loop was given."""
        self._length: int = self.prompt
        """Tokens that the next forward will end with, drafts included."""
        self._prompted = False
        self._fed = 0
        """Columns fed so far, while the prompt goes in."""
        self._left = given.left
        self._right = given.right
        self._told = self.prompt
        """Columns of the tokens that have been told."""
        self._waiting: tuple[Any, Any] | None = None
        """All tokens so far, and which rows are done, as tensors that nobody has read yet."""
        self._finished = [False] * self.batch
        self._last: list[int | None] = [None] * self.batch
        self._stopped: list[int | None] = [None] * self.batch
        """Where each row was when it was done."""
        recorder.schedules(chunk=getattr(config, "prefill_chunk_size", None))

    # What the loop lets be known.

    def drafted(self, candidates: Any) -> None:
        """The next forward checks these: [1, tokens so far and drafts]."""
        self._length = candidates.shape[1]

    def judged(self, ids: Any, done: Any) -> None:
        """A round is over: [rows, tokens so far], and [rows], which of them are done."""
        if self.beams:
            self._length += 1
            return
        self._length = ids.shape[1]
        self._waiting = (ids, done)

    # What the recorder asks.

    def rows(self, event: StepEvent) -> Named:
        """The rows of a forward of this thread."""
        if event.batch != self.batch or not self.recorder.models.is_model(event.model, self.model):
            return None
        idle = list(self._finished)
        self._speak()
        columns = columns_of(event)
        if self.name is None:
            self._begin(event, columns)
        start = self._start(event)
        self.recorder.bind(event.uids, self.names)
        if self._right is not None and start is not None and start + event.q == self._end():
            # The loop takes the logits of the last column, whatever stands there.
            self.recorder.samples([event.q - 1] * self.batch)
        return list(self._rows(event, start, idle)), self._phase(event)

    def _begin(self, event: StepEvent, columns: Columns) -> None:
        self.name = event.model
        self._left = self._left or columns.left
        held = columns.held
        if _cacheless(event):
            self.recorder.schedules(cacheless=True)
        if held is not None:
            # Given all tokens, or those alone that are new to the cache.
            self._base = held if event.q == self._length or self.prompt <= held else 0
            self._fed = held

    def _named(self, uids: list[int], held: int) -> list[str]:
        if self.outer is not None and len(self.outer.names) == self.batch:
            # A draft model runs the same sequence. The same model as its own draft would run it twice.
            twice = self.outer.model is self.model
            return [f"{name}-draft" for name in self.outer.names] if twice else self.outer.names
        known = self.recorder.names_of(uids)
        if known is not None and len(known) == self.batch and held:
            return known
        lineage, request = self.recorder.lineage, requests.current()
        if request is None:
            return [lineage.new_name() for _ in range(self.batch)]
        names = [request] if self.batch == 1 else [f"{request}.{row}" for row in range(self.batch)]
        return [lineage.unused(name) for name in names]

    def _start(self, event: StepEvent) -> int | None:
        """The column where the loop believes this forward to begin."""
        if _cacheless(event):
            return 0
        if self._base is None:
            return None
        if self._prompted:
            return self._base + self._length - event.q
        start = self._fed
        self._fed += event.q
        self._prompted = self._fed >= self._base + self.prompt
        return start

    def _rows(self, event: StepEvent, start: int | None, idle: list[bool]) -> Iterator[Row]:
        for index, name in enumerate(self.names):
            if event.q == 0 and self._held:
                yield Row(seq=name, offset=self._held, tokens=0)
                continue
            if start is None or self._left is None:
                known = event.q if event.q == 1 else None
                yield Row(seq=name, tokens=known, padded=None if known else event.q)
                continue
            padding = self._left[index]
            offset = max(start - padding, 0)
            # Columns of this forward that are still padding.
            blank = min(max(padding - start, 0), event.q)
            if idle[index]:
                yield self._idle(index, event, offset, blank)
                continue
            total = self._total(index)
            behind = self._behind(index, start, event.q)
            yield Row(
                seq=name,
                offset=offset,
                tokens=event.q - blank - behind,
                total=total if total is not None and offset < total else None,
                left_padding=padding or None,
                right_padding=behind or None,
            )

    def _end(self) -> int:
        """Column behind the prompt."""
        return (self._base or 0) + self.prompt

    def _behind(self, index: int, start: int, q: int) -> int:
        """Of the columns of this forward, those of the padding behind the prompt of a row."""
        if self._right is None:
            return 0
        end = self._end()
        return max(min(start + q, end) - max(start, end - self._right[index]), 0)

    def _idle(self, index: int, event: StepEvent, offset: int, blank: int) -> Row:
        """A row that is done. Its last token was fed in the step before; what keeps it in the batch now is
        padding.
        """
        name = self.names[index]
        if not _cacheless(event):
            # Where padding stands among the columns, that of the answer counts like it.
            stopped = offset if self._right is not None else self._stopped[index] or offset
            self._stopped[index] = stopped
            return Row(seq=name, phase="chunk", offset=stopped, tokens=0, right_padding=event.q)
        # All of it is fed once more; of the columns the newest is the first that is none of its own.
        stopped = self._stopped[index] = self._stopped[index] or event.q - 1 - blank
        return Row(
            seq=name,
            offset=0,
            tokens=stopped,
            left_padding=blank or None,
            right_padding=event.q - blank - stopped,
        )

    def _phase(self, event: StepEvent) -> str | None:
        """Where blocks of several tokens are fed after the prompt, they are drafts to be checked."""
        if self._told > self.prompt and event.q > 1 and not _cacheless(event):
            return "verify"
        return None

    # What it has said.

    def _speak(self) -> None:
        """Tell the tokens of the last round, which the loop has waited for."""
        if self._waiting is None:
            return
        ids, done = self._waiting
        if ids.device.type in NEVER_WAITS:
            return
        self._waiting = None
        self._tell(ids[:, self._told :].tolist(), done.tolist() if self.batch > 1 else None)
        self._told = ids.shape[1]

    def _tell(self, new: list[list[int]], done: list[bool] | None) -> None:
        for index, tokens in enumerate(new):
            if self._finished[index] or not tokens:
                continue
            self._last[index] = tokens[-1]
            if self.outer is None and self.names:
                total = self._total(index) if self._told == self.prompt else None
                self.recorder.emitted(self.names[index], tokens, total, self.name)
        if done is not None:
            self._finished = [a or b for a, b in zip(self._finished, done, strict=True)]

    def _total(self, index: int) -> int | None:
        """Length of the row's prompt, what its cache held included."""
        if self._left is None or self._base is None:
            return None
        right = self._right[index] if self._right is not None else 0
        return self._end() - self._left[index] - right

    def end(self, result: Any, failed: bool) -> None:
        """The loop is over; `result`: all its tokens [rows, tokens], or an output that holds them."""
        sequences = getattr(result, "sequences", result)
        if self.outer is not None or not self.names:
            return
        if self.beams and sequences is not None:
            self._speak_of_beams(sequences)
        elif self._waiting is not None:
            ids, done = self._waiting
            self._waiting = None
            ids = ids if sequences is None else sequences
            self._tell(ids[:, self._told :].tolist(), done.tolist() if self.batch > 1 else None)
        reached = self.limit is not None and self._length >= self.limit
        for name, last in zip(self.names, self._last, strict=True):
            if last is None and not failed:
                continue
            finish = "eos" if last in self.ends else "abort" if failed else "length" if reached else None
            self.recorder.finish(name, self.name, finish)

    def _speak_of_beams(self, sequences: Any) -> None:
        """Of each prompt the rows are beams; the answers are told as those of the first ones."""
        beams = self.batch * self.asked // sequences.shape[0]
        for number, tokens in enumerate(sequences[:, self.prompt :].tolist()):
            index = number // self.asked * beams + number % self.asked
            end = next((i + 1 for i, token in enumerate(tokens) if token in self.ends), len(tokens))
            self._tell([tokens[:end] if i == index else [] for i in range(self.batch)], None)


def _cacheless(event: StepEvent) -> bool:
    """The forward was seen, and no cache with it: it holds the whole of its sequences."""
    return not event.uids and event.unseen is None
