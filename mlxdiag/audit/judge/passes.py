"""Single passes of one model, shared by its scenarios: equal beginnings are computed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxdiag.audit.libraries import table
from mlxdiag.models.adapter import Instance
from mlxdiag.replay.ops import Event, Plan
from mlxdiag.replay.oracle import fed_histories, histories, replay_tape
from mlxdiag.replay.parity import Floats, spread
from mlxdiag.replay.prompts import Prompt
from mlxdiag.replay.tape import Tape

Ids = NDArray[np.int32]


class Passes:
    """Logits of single passes by token ids. Fresh caches, one forward, nobody's probe in place."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._known: list[tuple[Ids, Floats, float]] = []

    def of(self, ids: Ids) -> tuple[Floats, float]:
        """Logits `[n, V]` of these ids `[n]`, and the spread of the whole pass that they are taken from."""
        for known, logits, unit in self._known:
            if len(known) >= len(ids) and (known[: len(ids)] == ids).all():
                return logits[: len(ids)], unit
        logits = self._forward(ids, self.instance.new_cache())
        self._known.append((ids, logits, spread(logits)))
        return logits, self._known[-1][2]

    def rounded(self, ids: Ids, begin: int, bits: int) -> Floats | None:
        """Logits `[n - begin, V]` of the tokens from `begin` on, fed at once behind keys rounded there.

        None where the library quantises no such cache.
        """
        caches = self.instance.new_cache()
        self._forward(ids[:begin], caches)
        held = table.of(self.instance).rounded(caches, bits)
        return None if held is None else self._forward(ids[begin:], held)

    def _forward(self, ids: Ids, caches: list[Any]) -> Floats:
        logits: Floats = self.instance.backend.read(self.instance.forward(ids[None], caches))[0]
        return logits


class Reference:
    """What a trial compares with: the passes of one plan, made before any probe is in place."""

    def __init__(self, passes: Passes, plan: Plan, prompts: Mapping[str, Prompt]) -> None:
        self._passes = passes
        self._prompts = prompts
        self._rounded: dict[str, list[tuple[int, list[int], Floats | None]]] = {}
        """By sequence: where its keys were quantised, what it held, and the logits of what came after; once
        for the end, and once for each draft that was taken back.
        """
        final = histories(plan)
        wanted: dict[bytes, Ids] = {}
        for seq, history in fed_histories(plan):
            ends = final.get(seq, [])
            ids = prompts[seq].of(ends if ends[: len(history)] == history else history)
            wanted[ids.tobytes()] = ids
        for ids in sorted(wanted.values(), key=len, reverse=True):
            passes.of(ids)
        quantised = _quantised(plan)
        for seq, history in [*final.items(), *fed_histories(plan)]:
            begin, bits = quantised.get(seq, (len(history), 0))
            if begin < len(history) and self._after(seq, history) is None:
                ids = prompts[seq].of(history)
                self._rounded.setdefault(seq, []).append((begin, history, passes.rounded(ids, begin, bits)))

    def logits(self, seq: str, history: list[int]) -> tuple[Floats, float] | None:
        """As `oracle.Oracle.logits`. Behind a quantised cache the reference is rounded alike."""
        logits, unit = self._passes.of(self._prompts[seq].of(history))
        found = self._after(seq, history)
        if found is None:
            return logits, unit
        begin, after = found
        if after is None:
            return None
        return np.concatenate([logits[:begin], after[: len(history) - begin]]), unit

    def _after(self, seq: str, history: list[int]) -> tuple[int, Floats | None] | None:
        """Where its keys were quantised, and logits from there on; None where they were not."""
        for begin, known, after in self._rounded.get(seq, []):
            if begin < len(history) <= len(known) and known[: len(history)] == history:
                return begin, after
        return None


def _quantised(plan: Plan) -> dict[str, tuple[int, int]]:
    """By sequence: tokens held when its caches were quantised, and bits."""
    found: dict[str, tuple[int, int]] = {}
    tapes: dict[str, Tape] = {}
    for op in plan.ops:
        replay_tape(op, tapes)
        if isinstance(op, Event) and op.phase == "quantize":
            found.update({seq: (len(tapes[seq].own), op.bits or 8) for seq in op.seqs})
    return found
