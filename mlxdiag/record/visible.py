"""The visibility level: which positions each query of an unmodified program really attends.

Keys are told by their content, so every key of a sequence must have been seen when it was appended. That is
so for a prompt cache that this process began, and for its copies. Batches, caches that came out of one and
caches read from a file are recorded by their shapes alone, and say so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from mlxdiag.inspect import visibility
from mlxdiag.inspect.facts import looks_ahead
from mlxdiag.models.adapter import Geometry
from mlxdiag.models.events import AttentionEvent, CacheEvent, Feeding, StepEvent
from mlxdiag.models.identity import AMBIGUOUS, UNKNOWN

BOUND = 4096
"""Prompt caches remembered."""
KINDS = ("full", "sliding", "chunked")


class Visible:
    """Stateful, beside one probe at the visibility level."""

    def __init__(self, probe: Any, uids: Callable[[Any], list[int]], offset: Callable[[Any], int]) -> None:
        """`uids` and `offset` say of what a forward was given as its cache: which caches it is made of, and
        how many tokens they hold.
        """
        self._probe = probe
        self._uids = uids
        self._offset = offset
        self._numbers: OrderedDict[int, int] = OrderedDict()
        """Of each sequence, by the uid of its first cache."""
        self._made = 0
        self.known = False
        """Whether all keys of the forward that runs have been seen."""

    def before(self, step: StepEvent, caches: Any) -> Feeding:
        """What the forward is about to feed; a number that nothing else has where that is not known."""
        uids = self._uids(caches)
        offset = self._offset(caches)
        number = self._numbers.get(uids[0]) if uids else None
        self.known = step.batch == 1 and (number is not None or offset == 0)
        if number is None or not self.known:
            number = self._new(uids[0] if uids and self.known else None)
        positions = np.arange(offset, offset + step.q)[None].repeat(max(step.batch, 1), axis=0)
        numbers = [number, *(self._new(None) for _ in range(1, step.batch))]
        real = np.ones_like(positions, dtype=np.bool_)
        return Feeding(numbers, positions, real, padding_known=False)

    def happened(self, event: CacheEvent) -> None:
        """A copy, or a conversion, of the first cache of a sequence that is known."""
        if event.op not in ("copy", "to_quantized") or not event.parents:
            return
        number = self._numbers.get(event.parents[0])
        if number is None:
            return
        if event.op == "to_quantized":
            self._remember(event.uid, number)
        elif self._probe.identity is not None and isinstance(event.before, int):
            self._probe.identity.adopt(self._new(event.uid), number, event.before)

    def of(self, event: AttentionEvent, geometry: Geometry | None) -> dict[str, Any]:
        """The visibility fields of a call; nothing where its keys cannot be told."""
        seen = event.seen
        spec = geometry.layer(event.layer) if geometry is not None and event.layer is not None else None
        if not self.known or seen is None or spec is None or spec.attention not in KINDS:
            return {}
        if geometry is not None and looks_ahead(geometry.config):
            return {}  # what such a query must see depends on what is fed with it
        if np.isin(seen.key_seq, (UNKNOWN, AMBIGUOUS)).any():
            return {}
        if event.cursor is not None and event.offset != event.cursor:
            return {}  # behind padding, of which nobody told: positions are not those of the columns
        dropped = (event.live_start or 0) if spec.attention == "full" else 0
        return visibility.observe(
            seen.mask,
            seen.key_seq,
            seen.key_pos,
            np.repeat(np.asarray(seen.query_seq)[:, None], seen.query_pos.shape[1], axis=1),
            seen.query_pos,
            seen.query_real,
            kind=spec.attention,
            window=spec.window,
            live_start=dropped,
            keep=event.keep or 0,
        )

    def _new(self, uid: int | None) -> int:
        self._made += 1
        if uid is not None:
            self._remember(uid, self._made)
        return self._made

    def _remember(self, uid: int, number: int) -> None:
        self._numbers[uid] = number
        if len(self._numbers) > BOUND:
            self._numbers.popitem(last=False)
