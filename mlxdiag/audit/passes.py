"""Single passes of one model, shared by its scenarios: equal beginnings are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxdiag.models.adapter import Instance
from mlxdiag.replay.ops import Plan
from mlxdiag.replay.oracle import fed_histories, histories
from mlxdiag.replay.parity import Floats, spread
from mlxdiag.replay.prompts import Prompt

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
        return self._run(ids)

    def _run(self, ids: Ids) -> tuple[Floats, float]:
        import mlx.core as mx

        logits: Floats = np.array(
            self.instance.forward(ids[None], self.instance.new_cache()).astype(mx.float32)
        )[0]
        self._known.append((ids, logits, spread(logits)))
        return logits, self._known[-1][2]


class Reference:
    """What a trial compares with: the passes of one plan, made before any probe is in place."""

    def __init__(self, passes: Passes, plan: Plan, prompts: Mapping[str, Prompt]) -> None:
        self._passes = passes
        self._prompts = prompts
        final = histories(plan)
        wanted: dict[bytes, Ids] = {}
        for seq, history in fed_histories(plan):
            ends = final.get(seq, [])
            ids = prompts[seq].of(ends if ends[: len(history)] == history else history)
            wanted[ids.tobytes()] = ids
        for ids in sorted(wanted.values(), key=len, reverse=True):
            passes.of(ids)

    def logits(self, seq: str, history: list[int]) -> tuple[Floats, float] | None:
        """As `oracle.Oracle.logits`."""
        return self._passes.of(self._prompts[seq].of(history))

    def left_out(self) -> Iterator[str]:
        """Nothing is."""
        return iter(())


def longest(plan: Plan, prompts: Mapping[str, Prompt]) -> dict[str, Any]:
    """Ids that each sequence holds when the plan ends."""
    return {seq: prompts[seq].of(codes) for seq, codes in histories(plan).items()}
