"""One rank of the ring: `python -m mlxdiag.audit.distributed.ring.rank FOLDER SEED FAMILY:KIND...`.

Both ranks build the same tiny model from the same seed. Each computes alone, splits the model over the group
as `mlx_lm.utils.sharded_load` does, runs the same schedules again, and tells how far its logits are from its
own.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from mlxdiag.audit.distributed.rank import MEETING, Rank, end_with_parent, report
from mlxdiag.audit.distributed.schedules import SCHEDULES, compare, run, tokens
from mlxdiag.audit.distributed.told import PIPELINE, TENSOR, Told
from mlxdiag.audit.judge import noise
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import library, zoo
from mlxdiag.replay import parity


class RingRank(Rank):
    """`group`: of both ranks."""

    def __init__(self, report: Path, seed: int, group: Any) -> None:
        super().__init__(report, seed)
        self.group = group

    def trial(self, family: str, kind: str) -> Told:
        self.during = "building"
        instance = zoo.tiny(family, self.seed)
        if isinstance(instance, Skipped):
            return Told(family, kind, "skipped", str(instance))
        if not can_split(instance.model, kind):
            return Told(family, kind, "unsupported", REFUSED[kind])
        relative = noise.tolerance(noise.floor(instance, self.seed))
        ids = tokens(instance, self.seed)
        alone = {name: run(instance, ids, *schedule) for name, schedule in SCHEDULES.items()}
        whole = weights(instance.model)
        self.during = "splitting"
        split(instance.model, kind, self.group)
        found = []
        for name, schedule in SCHEDULES.items():
            self.during = name
            together = run(instance, ids, *schedule)
            found.append(compare(name, together, alone[name], relative * parity.spread(alone[name])))
        return Told(
            family,
            kind,
            "done",
            differences=found,
            layers=held(instance.model),
            weights=weights(instance.model),
            whole=whole,
        )


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


def weights(model: Any) -> int:
    """Numbers in the parameters."""
    from mlx.utils import tree_flatten

    return sum(int(value.size) for _, value in tree_flatten(model.parameters()))


def main(arguments: list[str]) -> None:
    """Work through the families in the order given, in step with the other rank."""
    end_with_parent()
    folder, seed, *items = arguments
    library.load()
    import mlx.core as mx

    # The ring waits for its peer without letting Python run; the default action of the alarm ends it.
    signal.alarm(MEETING)
    group = mx.distributed.init(strict=True, backend="ring")
    signal.alarm(0)
    rank = RingRank(report(Path(folder), int(os.environ["MLX_RANK"])), int(seed), group)
    for item in items:
        rank.work(*item.rsplit(":", 1))


if __name__ == "__main__":
    main(sys.argv[1:])
