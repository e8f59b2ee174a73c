"""Parity under the library's own key cap: each query is given the keys that it really saw, in one pass.

A cap loses keys on purpose, and which ones depends on how the tokens came. What must still be right is what
the model makes of the keys that it sees, so the observed visibility becomes the mask of the reference. And
the first keys, which the cap pins, must be there for every single token; masks for several tokens hide them
by design.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from mlxdiag.audit.judge.trial import Difference, Trial
from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import USE_LIBRARY
from mlxdiag.models.events import Seen, StepEvent
from mlxdiag.models.mlx.inject import caller_masks
from mlxdiag.replay.entries import tape_positions
from mlxdiag.replay.ops import Feed, Forward
from mlxdiag.replay.parity import REFERENCE, Floats, compare, spread
from mlxdiag.traces.types import Attention, Entry, Output, Parity, Trace


class CappedTrial(Trial):
    """Of one sequence. Compares after the run, when all that was seen is known."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        layers = self.instance.geometry.layers
        self._windows = {layer.index: layer.window for layer in layers}
        self._bounded = {name for name, family in self.instance.geometry.families().items() if family.window}
        self._seen: dict[int | None, dict[int, frozenset[int]]] = {}
        """By window of the layer and position of the query: positions of the keys."""
        self._alike = True
        """All layers of one window saw the same, so that one mask stands for them all."""
        self._logits: dict[int, tuple[list[int], Floats]] = {}
        """By step: positions and logits."""

    def run(self) -> Trace:
        trace = super().run()
        trace = Trace(trace.header, [self._pinned(entry) for entry in trace.entries])
        reference = self._reference()
        if reference is None:
            return trace
        return Trace(trace.header, [self._compared(entry, reference) for entry in trace.entries])

    def _parity(self, op: Forward, feed: Feed, own: Floats) -> Parity | None:
        begin = feed.start
        self._logits[self.step] = list(range(begin, begin + feed.tokens)), own.copy()
        for event in self.events:
            if isinstance(event, StepEvent):
                for call in event.attention:
                    self._note(self._windows.get(call.layer or 0), call.seen)
        return None

    def _note(self, window: int | None, seen: Seen | None) -> None:
        if seen is None:
            self._alike = False
            return
        keys = tape_positions(seen.key_pos)[0]
        held = self._seen.setdefault(window, {})
        for query, at in enumerate(tape_positions(seen.query_pos)[0].tolist()):
            shown = frozenset(keys[seen.mask[0, query] & (seen.key_seq[0] >= 0)].tolist())
            self._alike = self._alike and held.setdefault(at, shown) == shown

    def _reference(self) -> Floats | None:
        """The pass over the same tokens with what each query saw; None where the model takes no such mask."""
        length = sum(len(held[0]) for held in self._logits.values())
        fed = set(range(length))
        if not self._alike or not fed or any(set(seen) != fed for seen in self._seen.values()):
            return None
        masks = {window: _mask(seen) for window, seen in self._seen.items()}
        (any_mask, *others) = masks.values()
        (seq,) = self.plan.lengths
        try:
            with caller_masks(
                self.instance.module,
                lambda _, __, window, ___: masks.get(window, USE_LIBRARY) if others else any_mask,
            ):
                logits = self.instance.forward(
                    self.prompts[seq].of(list(range(length)))[None], self.instance.new_cache()
                )
                read: Floats = self._read(logits)[0]
                return read
        except UsageError:
            return None

    def _pinned(self, entry: Entry) -> Entry:
        """The entry with the pinned keys among the missing ones, where a single token does not see them."""
        held = self._logits.get(entry.step or 0)
        if held is None or len(held[0]) != 1 or not entry.attention:
            return entry
        (at,) = held[0]
        pinned = range(min(self.plan.scheduler.keep or 0, at))
        seen = self._seen.get(None, {}).get(at, pinned)
        lost = [(0, 0, position) for position in pinned if position not in seen]
        if not lost:
            return entry
        # A window hides the pinned keys, as it does any others.
        calls = [call if call.family in self._bounded else lacking(call, lost) for call in entry.attention]
        return msgspec.structs.replace(entry, attention=calls)

    def _compared(self, entry: Entry, reference: Floats) -> Entry:
        held = self._logits.get(entry.step or 0)
        if held is None or not entry.output:
            return entry
        positions, own = held
        compared = compare(own, reference, positions, self.tolerance * spread(reference))
        if compared.wrong:
            (seq,) = self.plan.lengths
            self.differences.append(Difference(entry.step or 0, seq, compared.wrong))
        output: Output = msgspec.structs.replace(entry.output[0], parity=compared.record(REFERENCE))
        return msgspec.structs.replace(entry, output=[output])


def lacking(call: Attention, lost: list[tuple[int, int, int]]) -> Attention:
    """The call with these (row, query, position) among its missing keys."""
    held, totals = [tuple(triple) for triple in call.missing or []], call.totals or {}
    more = [triple for triple in lost if triple not in held]
    queries = {(row, query) for row, query, _ in lost}
    counted = {
        "missing": totals.get("missing", 0) + len(more),
        "wrong_queries": max(totals.get("wrong_queries", 0), len(queries)),
    }
    return msgspec.structs.replace(call, missing=[*held, *more], totals={**totals, **counted})


def _mask(seen: Mapping[int, frozenset[int]]) -> Any:
    import mlx.core as mx

    mask = np.zeros((len(seen), len(seen)), dtype=bool)
    for query, keys in seen.items():
        mask[query, sorted(keys)] = True
    return mx.array(mask)
