"""One rank of a distributed trial: `python -m mlxdiag.audit.distributed.rank REPORT SEED FAMILY:KIND...`.

Both ranks build the same tiny model from the same seed. Each computes alone, splits the model over the group
as `mlx_lm.utils.sharded_load` does, runs the same schedules again, and tells how far its logits are from its
own. What happens is appended to the file REPORT, a JSON object a line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mlxdiag.audit.judge import noise
from mlxdiag.audit.judge.reading import crash_site
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.models.mlx import library, zoo
from mlxdiag.replay import parity
from mlxdiag.replay.prompts import special_ids

TENSOR, PIPELINE = "tensor-parallel", "pipeline"
LENGTH = 19
"""Tokens: two windows of 8 and three."""
SCHEDULES: dict[str, tuple[int, tuple[int, ...]]] = {
    "fresh over the window": (1, (LENGTH,)),
    "chunked prefill": (1, (5, 5, 5, 4)),
    "decode across the window": (1, (6, *[1] * (LENGTH - 6))),
    "two rows of one length": (2, (5, 5, 5, 1, 1, 1, 1)),
}
"""Rows, and the pieces that each is fed in."""
MEETING = 60
"""Seconds that a rank waits for its peer."""
BROKEN = 3
"""Exit status after an error: the other rank may wait for this one, so neither goes on."""


class Difference(msgspec.Struct, omit_defaults=True):
    """One schedule against the same schedule in a single process."""

    schedule: str
    compared: int
    max_abs: float
    tolerance: float
    positions: list[int] = []
    """Where the logits differ; a second row's positions follow on the first's."""
    margin: float | None = None
    """Top-2 margin of the single process at the first of them."""


class Told(msgspec.Struct, omit_defaults=True):
    """What a rank says of one family under one kind of splitting."""

    family: str
    kind: str
    state: str
    """begun, done, unsupported, skipped or failed."""
    reason: str = ""
    where: str = ""
    during: str = ""
    """What was being done when it failed: building, splitting, or the name of a schedule."""
    error: str = ""
    """Type of the exception."""
    differences: list[Difference] = []
    layers: int = 0
    """Layers that this rank holds."""


class Rank:
    """The work of this process, and its file."""

    def __init__(self, report: Path, seed: int, group: Any) -> None:
        self.report = report
        self.seed = seed
        self.group = group
        self.during = ""

    def tell(self, told: Told) -> None:
        with self.report.open("ab") as file:
            file.write(msgspec.json.encode(told) + b"\n")

    def work(self, family: str, kind: str) -> None:
        """One family. Ends the process where the library fails."""
        self.tell(Told(family, kind, "begun"))
        try:
            self.tell(self._trial(family, kind))
        except Exception as error:  # noqa: BLE001  a family may fail in any way
            said = " ".join(str(error).split())[:300]
            self.tell(
                Told(
                    family,
                    kind,
                    "failed",
                    reason=said,
                    where=crash_site(error),
                    during=self.during,
                    error=type(error).__name__,
                )
            )
            os._exit(BROKEN)

    def _trial(self, family: str, kind: str) -> Told:
        self.during = "building"
        instance = zoo.tiny(family, self.seed)
        if isinstance(instance, Skipped):
            return Told(family, kind, "skipped", str(instance))
        if not can_split(instance.model, kind):
            return Told(family, kind, "unsupported", REFUSED[kind])
        relative = noise.tolerance(noise.floor(instance, self.seed))
        ids = tokens(instance, self.seed)
        alone = {name: run(instance, ids, *schedule) for name, schedule in SCHEDULES.items()}
        self.during = "splitting"
        split(instance.model, kind, self.group)
        found = []
        for name, schedule in SCHEDULES.items():
            self.during = name
            together = run(instance, ids, *schedule)
            found.append(compare(name, together, alone[name], relative * parity.spread(alone[name])))
        return Told(family, kind, "done", differences=found, layers=held(instance.model))


REFUSED = {
    TENSOR: "sharded_load refuses: the model does not support tensor parallelism (its Model has no shard)",
    PIPELINE: "sharded_load refuses: the model does not support pipelining (its Model.model has no pipeline)",
}


def can_split(model: Any, kind: str) -> bool:
    """As `mlx_lm.utils.sharded_load` asks."""
    if kind == TENSOR:
        return hasattr(model, "shard")
    return hasattr(model, "model") and hasattr(model.model, "pipeline")


def split(model: Any, kind: str, group: Any) -> None:
    """Give this rank its part of the model, as `mlx_lm.utils.sharded_load` does."""
    import mlx.core as mx

    if kind == TENSOR:
        model.shard(group)
    else:
        model.model.pipeline(group)
    mx.eval(model.parameters())


def held(model: Any) -> int:
    """Layers of this rank's part."""
    return sum(layer is not None for layer in model.layers)


def tokens(instance: Instance, seed: int) -> np.ndarray[Any, Any]:
    """Different ids [2, LENGTH], none of them special."""
    special = special_ids(instance.geometry.tokens, instance.vocab)
    usable = np.setdiff1d(np.arange(instance.vocab, dtype=np.int32), sorted(special))
    drawn = np.random.default_rng(seed).permutation(usable)[: 2 * LENGTH]
    return drawn.astype(np.int32).reshape(2, LENGTH)


def run(instance: Instance, ids: np.ndarray[Any, Any], rows: int, pieces: tuple[int, ...]) -> parity.Floats:
    """Logits [rows * LENGTH, V] of the first rows of `ids`, fed in these pieces on fresh caches."""
    import mlx.core as mx

    caches, logits, start = instance.new_cache(), [], 0
    for length in pieces:
        piece = instance.forward(ids[:rows, start : start + length], caches)
        logits.append(np.array(piece.astype(mx.float32)))
        start += length
    joined: parity.Floats = np.concatenate(logits, axis=1)
    return joined.reshape(-1, joined.shape[-1])


def compare(name: str, seen: parity.Floats, reference: parity.Floats, tolerance: float) -> Difference:
    """Logits `[n, V]` of a schedule against those of the same schedule in one process."""
    found = parity.compare(seen, reference, list(range(len(seen))), tolerance)
    # JSON has no infinity.
    largest = min(found.max_abs, 1e38)
    return Difference(name, found.count, largest, tolerance, list(found.wrong), found.margin)


def _end_with(parent: int) -> None:
    """A rank whose parent is gone would wait for its peer for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(BROKEN)


def main(arguments: list[str]) -> None:
    """Work through the families in the order given, in step with the other rank."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    report, seed, *items = arguments
    library.load()
    import mlx.core as mx

    # The ring waits for its peer without letting Python run; the default action of the alarm ends it.
    signal.alarm(MEETING)
    group = mx.distributed.init(strict=True, backend="ring")
    signal.alarm(0)
    rank = Rank(Path(report), int(seed), group)
    for item in items:
        rank.work(*item.rsplit(":", 1))


if __name__ == "__main__":
    main(sys.argv[1:])
