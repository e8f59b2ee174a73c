"""mlx-lm's `BatchGenerator`: which request is which row of a forward, and which token came out of it.

The scheduler's own offset of a row is the length of the token list that it keeps beside the caches; token
ints are those that its responses hold. Read against `mlx_lm/generate.py` of mlx-lm 0.32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.models.mlx.probe_tags import uids_of
from mlxdiag.record.mlx.prompt_caches import filled_by, held
from mlxdiag.record.mlx.rows import DecodeFeed, PromptFeed, Sequence
from mlxdiag.record.origins import Origin
from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Fault

Wrapper = Callable[..., Any]
TABLE = "_mlxdiag_sequences"
"""Attribute of a generator: its sequences by uid, which begin anew in each generator."""
FINISHES = {"stop": "eos", "length": "length"}


def install(module: ModuleType, recorder: Recorder) -> None:
    """Follow the batches of `mlx_lm.generate` from now on."""
    hooks = Batches(recorder)
    add = recorder.patches.add
    add(module.BatchGenerator, "__init__", hooks.created)
    add(module.BatchGenerator, "insert_segments", hooks.insert_segments)
    add(module.BatchGenerator, "_next", hooks.at_work)
    add(module.BatchGenerator, "remove", hooks.remove)
    add(module.PromptProcessingBatch, "_copy", hooks.copy)
    add(module.PromptProcessingBatch, "prompt", hooks.prompt)
    add(module.GenerationBatch, "_step", hooks.step)
    add(module.GenerationBatch, "next", hooks.next)


class _Local(threading.local):
    def __init__(self) -> None:
        self.table: dict[int, Sequence] = {}
        """Of the generator that is at work in this thread, or of batches that none has made."""


class Batches:
    """Makes the wrappers; one for each recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._local = _Local()

    def created(self, original: Wrapper) -> Wrapper:
        def __init__(generator: Any, *args: Any, **kwargs: Any) -> None:
            original(generator, *args, **kwargs)
            self.recorder.guarded(self._created, generator)

        return __init__

    def insert_segments(self, original: Wrapper) -> Wrapper:
        def insert_segments(generator: Any, segments: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                uids = original(generator, segments, *args, **kwargs)
            except Exception as error:
                self.recorder.guarded(self._declined, kwargs.get("caches"), error)
                raise
            self.recorder.guarded(self._inserted, generator, len(uids))
            return uids

        return insert_segments

    def at_work(self, original: Wrapper) -> Wrapper:
        def _next(generator: Any) -> Any:
            before, self._local.table = self._local.table, _table(generator)
            try:
                return original(generator)
            finally:
                self._local.table = before

        return _next

    def remove(self, original: Wrapper) -> Wrapper:
        def remove(generator: Any, uids: Any, *args: Any, **kwargs: Any) -> Any:
            removed = original(generator, uids, *args, **kwargs)
            self.recorder.guarded(self._removed, generator, uids)
            return removed

        return remove

    def copy(self, original: Wrapper) -> Wrapper:
        """A split: of the copy some rows are kept, of the batch it was copied from the others."""

        def _copy(batch: Any) -> Any:
            copied = original(batch)
            self.recorder.guarded(self._copied, copied)
            return copied

        return _copy

    def prompt(self, original: Wrapper) -> Wrapper:
        def prompt(batch: Any, tokens: Any) -> Any:
            self.recorder.guarded(self._prompting, batch, tokens)
            try:
                return original(batch, tokens)
            finally:
                self.recorder.naming(None)

        return prompt

    def step(self, original: Wrapper) -> Wrapper:
        def _step(batch: Any) -> Any:
            self.recorder.guarded(self._stepping, batch)
            try:
                return original(batch)
            finally:
                self.recorder.naming(None)

        return _step

    def next(self, original: Wrapper) -> Wrapper:
        def next_responses(batch: Any) -> Any:
            responses = original(batch)
            self.recorder.guarded(self._responded, responses)
            return responses

        return next_responses

    def _created(self, generator: Any) -> None:
        self.recorder.schedules(chunk=generator.prefill_step_size)

    def _inserted(self, generator: Any, count: int) -> None:
        """Requests that wait: (uid, segments, max_tokens, caches, tokens in the caches, ...)."""
        table, waiting = _table(generator), generator._unprocessed_sequences
        for place in range(len(waiting) - count, len(waiting)):
            uid, segments, _, caches, tokens = waiting[place][:5]
            holding = held(caches)
            known = len(tokens) or holding
            sequence = table[uid] = Sequence(self._adopting(generator.model, caches, known, holding))
            sequence.base = known - len(tokens)
            sequence.total = known + sum(len(segment) for segment in segments)
            self.recorder.bind(uids_of(caches), [sequence.name])

    def _declined(self, caches: Any, error: Exception) -> None:
        """Nothing was inserted; what a store had handed out for it is told, and why nobody will feed it.

        mlx-lm 0.32.2: where a whole prompt is found in the store, its server inserts no token at all.
        """
        fault = Fault(text=f"{type(error).__name__}: {error}", where="insert_segments")
        for cache in caches or ():
            origin = self.recorder.origins.take(uids_of(cache))
            if origin is not None:
                told = origin.told(held(cache), filled_by(cache))
                self.recorder.write(msgspec.structs.replace(told, error=fault))

    def _adopting(self, model: Any, caches: Any, known: int, holding: int) -> str:
        """The name of the sequence; and the entry for what its caches hold, where they hold something."""
        origin = self.recorder.origins.take(uids_of(caches))
        if origin is None:
            origin = Origin("adopt", self.recorder.lineage.new_name(), known, holding, 0)
        if known or holding:
            by = filled_by(caches) or self.recorder.models.name_of(model)
            self.recorder.write(origin.told(holding, by))
        return origin.seq

    def _removed(self, generator: Any, uids: Any) -> None:
        table = _table(generator)
        for uid in uids:
            sequence = table.pop(uid, None)
            if sequence is not None:
                self.recorder.finish(sequence.name, sequence.model, "abort")

    def _copied(self, batch: Any) -> None:
        self.recorder.bind(uids_of(batch.prompt_cache), [s.name for s in self._named(batch.uids)])

    def _prompting(self, batch: Any, tokens: Any) -> None:
        if tokens and len(tokens) == len(batch.uids):
            sequences = self._named(batch.uids)
            lengths = [len(row) for row in tokens]
            self.recorder.naming(PromptFeed(sequences, _offsets(batch, sequences), lengths))

    def _stepping(self, batch: Any) -> None:
        sequences = self._named(batch.uids)
        self.recorder.naming(DecodeFeed(sequences, _offsets(batch, sequences)))

    def _responded(self, responses: Any) -> None:
        table = self._local.table
        for response in responses:
            sequence = table.get(response.uid)
            if sequence is not None:
                total = None if sequence.told else sequence.total or None
                sequence.told = True
                self.recorder.emitted(sequence.name, (response.token,), total)
        for response in responses:
            if response.finish_reason is not None and response.uid in table:
                sequence = table.pop(response.uid)
                self.recorder.finish(sequence.name, sequence.model, FINISHES.get(response.finish_reason))

    def _named(self, uids: list[int]) -> list[Sequence]:
        table = self._local.table
        for uid in uids:
            if uid not in table:
                table[uid] = Sequence(self.recorder.lineage.new_name())
        return [table[uid] for uid in uids]


def _table(generator: Any) -> dict[int, Sequence]:
    table: dict[int, Sequence] = generator.__dict__.setdefault(TABLE, {})
    return table


def _offsets(batch: Any, sequences: list[Sequence]) -> list[int]:
    return [s.base + len(tokens) for s, tokens in zip(sequences, batch.tokens, strict=True)]
