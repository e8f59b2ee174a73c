"""Continuous batching: requests by their ids, prompts in pieces beside single tokens, and what came of them.

Everything is known on the host: offsets and lengths from the schedule of each step, tokens as the ints that
the library keeps. Read against `transformers/generation/continuous_batching` of transformers 5.24.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
from transformers.generation.continuous_batching import continuous_api, requests, scheduler
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

from mlxdiag.models.events import StepEvent
from mlxdiag.record.recorder import SKIPPED, Named, Recorder
from mlxdiag.traces.types import Attention, Entry, Row

Wrapper = Callable[..., Any]
UNSEEN = "a captured or compiled graph ran: not observed"


def install(recorder: Recorder) -> None:
    """Follow every batch from now on."""
    hooks = Batches(recorder)
    add = recorder.patches.add
    add(ContinuousBatchingIOs, "prepare_batch_tensors", hooks.prepare)
    add(continuous_api.ContinuousBatchProcessor, "_generation_step", hooks.step)
    add(continuous_api.ContinuousBatchProcessor, "warmup", hooks.warmup)
    add(continuous_api.ContinuousBatchProcessor, "_handle_request_error", hooks.failed)
    add(requests.RequestState, "update_and_check_completion", hooks.updated)
    add(scheduler.Scheduler, "clear_cancelled_requests", hooks.cancelled)


class Request(msgspec.Struct, eq=False):
    """One that is being answered. Lengths count tokens."""

    name: str
    prompt: int
    model: str | None = None
    told: bool = False
    """The length of the prompt stands beside an emitted token already."""


class _Local(threading.local):
    step: Step | None = None
    """The batch that was prepared in this thread."""


class Step:
    """The rows of one prepared batch, for the forward that is to come."""

    def __init__(self, recorder: Recorder, members: list[tuple[Request, int, int]]) -> None:
        """Request, offset and number of tokens of each row, in order."""
        self.recorder = recorder
        self.members = members
        self.done = False

    def rows(self, event: StepEvent) -> Named:
        """Once; a graph is captured by running the same forward again."""
        if self.done:
            return SKIPPED
        self.done = True
        for request, offset, _ in self.members:
            if request.model is None:
                request.model = event.model
                self._adopted(request, offset)
        return self.told()

    def told(self) -> tuple[list[Row], str]:
        phases = [_phase(request, offset) for request, offset, _ in self.members]
        phase = next((p for p in ("chunk", "prefill") if p in phases), "decode")
        rows = []
        for own, (request, offset, tokens) in zip(phases, self.members, strict=True):
            # Beside a prompt's tokens stands the prompt's length; so every prompt token can be told.
            total = request.prompt if own != "decode" else None
            rows.append(
                Row(
                    seq=request.name,
                    phase=own if own != phase else None,
                    offset=offset,
                    tokens=tokens,
                    scheduled=tokens,
                    total=total,
                )
            )
        return rows, phase

    def _adopted(self, request: Request, offset: int) -> None:
        """The first tokens of its prompt were found in blocks that another request has filled."""
        if offset:
            row = Row(seq=request.name, matched=offset, entry=offset, trimmed=0, restored=offset)
            self.recorder.write(Entry(phase="adopt", model=request.model, rows=[row]))


class Batches:
    """Makes the wrappers; one for each recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._requests: dict[str, Request] = {}
        self._local = _Local()

    def prepare(self, original: Wrapper) -> Wrapper:
        def prepare_batch_tensors(io: Any, requests_in_batch: Any, *args: Any, **kwargs: Any) -> Any:
            self.recorder.guarded(self._prepared, requests_in_batch)
            return original(io, requests_in_batch, *args, **kwargs)

        return prepare_batch_tensors

    def step(self, original: Wrapper) -> Wrapper:
        def _generation_step(processor: Any, model: Any) -> Any:
            step, self._local.step = self._local.step, None
            if step is None:
                return original(processor, model)
            self.recorder.naming(step.rows)
            try:
                result = original(processor, model)
            finally:
                self.recorder.naming(None)
            if not step.done:
                self.recorder.guarded(self._unseen, step, model)
            return result

        return _generation_step

    def warmup(self, original: Wrapper) -> Wrapper:
        def warmup(processor: Any, model: Any) -> Any:
            self.recorder.naming(lambda _event: SKIPPED)
            try:
                return original(processor, model)
            finally:
                self.recorder.naming(None)
                self._local.step = None

        return warmup

    def updated(self, original: Wrapper) -> Wrapper:
        def update_and_check_completion(state: Any, token_id: int, *args: Any, **kwargs: Any) -> Any:
            before = len(state.generated_tokens)
            over = original(state, token_id, *args, **kwargs)
            self.recorder.guarded(self._updated, state, token_id, len(state.generated_tokens) > before, over)
            return over

        return update_and_check_completion

    def failed(self, original: Wrapper) -> Wrapper:
        def _handle_request_error(processor: Any, error: Exception, state: Any) -> Any:
            self.recorder.guarded(self._ended, state.request_id, "abort")
            return original(processor, error, state)

        return _handle_request_error

    def cancelled(self, original: Wrapper) -> Wrapper:
        def clear_cancelled_requests(one: Any) -> Any:
            states = original(one)
            for state in states:
                self.recorder.guarded(self._ended, state.request_id, "abort")
            return states

        return clear_cancelled_requests

    def _prepared(self, futures: Any) -> None:
        members = []
        for future in futures:
            state = future.state
            request = self._requests.get(state.request_id)
            if request is None:
                name = self.recorder.lineage.unused(state.request_id)
                request = self._requests[state.request_id] = Request(name, _prompt_of(state))
            members.append((request, state.position_offset, future.query_length))
        self._local.step = Step(self.recorder, members)

    def _unseen(self, step: Step, model: Any) -> None:
        """A graph was replayed, or compiled code ran: only the schedule is known."""
        rows, phase = step.told()
        name = self.recorder.models.name_of(model)
        for request, _, _ in step.members:
            request.model = name
        self.recorder.blind(Entry(phase=phase, model=name, rows=rows, attention=[Attention()], note=UNSEEN))

    def _updated(self, state: Any, token: int, kept: bool, over: bool) -> None:
        request = self._requests.get(state.request_id)
        if request is None:
            return
        if kept:
            total = None if request.told else request.prompt
            request.told = True
            self.recorder.emitted(request.name, (token,), total, request.model)
        if over:
            self._ended(state.request_id, "eos" if token in state._eos_token_ids else "length")

    def _ended(self, ident: str, finish: str) -> None:
        request = self._requests.pop(ident, None)
        if request is not None:
            self.recorder.finish(request.name, request.model, finish)


def _prompt_of(state: Any) -> int:
    """Tokens; where a request was put back to its start, its answer so far stands behind its prompt."""
    return int(state._true_initial_tokens or len(state.initial_tokens))


def _phase(request: Request, offset: int) -> str:
    if offset >= request.prompt:
        return "decode"
    return "chunk" if offset else "prefill"
