"""Programs of one sequence: `generate_step` and `speculative_generate_step`, and so `stream_generate`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.models.events import StepEvent
from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Row


def install(module: ModuleType, recorder: Recorder) -> None:
    """Follow every generation that begins from now on."""
    for name in ("generate_step", "speculative_generate_step"):
        recorder.patches.add(module, name, partial(following, recorder=recorder))


def following(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """The generator function, with each token that it yields told to the recorder."""
    signature = inspect.signature(original)

    def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
        tokens = original(*args, **kwargs)
        answer = recorder.guarded(Answer, recorder, signature, args, kwargs)
        if answer is None:
            yield from tokens
            return
        finished = False
        try:
            while True:
                _THREAD.answer = None
                recorder.guarded(answer.resume)
                try:
                    item = next(tokens)
                except StopIteration:
                    finished = True
                    return
                finally:
                    recorder.guarded(answer.pause)
                recorder.guarded(answer.token, item)
                _THREAD.answer = answer
                yield item
        finally:
            _THREAD.answer = None
            # A generator that is closed early takes back its drafts: those trims are the answer's too.
            tokens.close()
            recorder.guarded(answer.end, finished)

    return generate


class _Thread(threading.local):
    answer: Answer | None = None
    """The one whose token the program has in hand."""


_THREAD = _Thread()


def answering() -> Answer | None:
    """The generation that has just yielded a token in this thread."""
    return _THREAD.answer


class Answer:
    """One generation: what it feeds, whose caches it uses, what it has said."""

    def __init__(self, recorder: Recorder, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        self.recorder = recorder
        self.target = values["model"]
        self.draft = values.get("draft_model")
        self.prompt = max(len(values["prompt"]), len(_or(values.get("input_embeddings"))))
        self.limit = values["max_tokens"]
        self.seq: str | None = None
        self.said = 0
        self.last: int | None = None
        self.start: int | None = None
        """Tokens that the target's cache held before the prompt."""
        self._fed: dict[str, int] = {}
        """Prompt tokens that each model has been fed."""
        self._starts: dict[str, int | None] = {}
        """Tokens that each model's cache held before the prompt."""
        self._model: str | None = None
        self.reason: str | None = None
        """Why it ended, where the program says so itself."""
        recorder.schedules(
            chunk=values["prefill_step_size"],
            kv_bits=values.get("kv_bits"),
            speculative=values.get("num_draft_tokens") if self.draft is not None else None,
        )

    def resume(self) -> None:
        self.recorder.naming(self.rows)

    def pause(self) -> None:
        self.recorder.naming(None)

    def rows(self, event: StepEvent) -> tuple[list[Row], str | None] | None:
        """The row of a forward, named for the answer whichever of its models runs."""
        if event.batch != 1:
            return None
        fed = self._fed.get(event.model, 0)
        self._fed[event.model] = fed + event.q
        (row,) = self.recorder.own_rows(event, self.seq)
        self.seq = row.seq
        is_target = self.recorder.models.is_model(event.model, self.target)
        if is_target and self._model is None:
            self._model, self.start = event.model, row.offset
        row = msgspec.structs.replace(row, offset=self._believed(event.model, row, fed))
        verifies = self.draft is not None and is_target and fed >= self.prompt - 1 and event.q > 1
        return [row], "verify" if verifies else None

    def _believed(self, model: str, row: Row, fed: int) -> int | None:
        """Where the program must think it is: it goes on as if every token that it asked back had gone."""
        back = self.recorder.debts.count(model, row.seq or "")
        start = self._starts.setdefault(model, row.offset)
        return None if start is None else start + fed - back

    def token(self, item: Any) -> None:
        self.said += 1
        self.last = int(item[0])
        if self.seq is not None:
            total = self.prompt + (self.start or 0) if self.said == 1 else None
            self.recorder.emitted(self.seq, [self.last], total, self._model)

    def end(self, finished: bool) -> None:
        if self.seq is not None and self.said:
            eos = self.recorder.models.is_eos(self._model, self.last)
            reached = finished or self.said == self.limit
            finish = "eos" if eos else self.reason or ("length" if reached else None)
            self.recorder.finish(self.seq, self._model, finish)
        if self.seq is not None:
            self.recorder.debts.stop(self.seq)


def _or(value: Any) -> Any:
    return () if value is None else value
