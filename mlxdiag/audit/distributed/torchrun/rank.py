"""One rank of a tensor-parallel trial, started by torchrun with the arguments FOLDER SEED FAMILY:KIND....

Both ranks build the same tiny model from the same seed, and the first writes it down as a checkpoint. Each
loads it whole and computes alone, loads its part of it by the model's own plan, runs the same schedules again
under the probe, and tells how far its logits are from its own, and what its heads saw.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

from mlxdiag.audit.distributed.rank import MEETING, Rank, end_with_parent, report
from mlxdiag.audit.distributed.schedules import SCHEDULES
from mlxdiag.audit.distributed.told import Told
from mlxdiag.audit.distributed.torchrun import split
from mlxdiag.audit.distributed.torchrun.watched import Alone, watch
from mlxdiag.audit.judge import noise
from mlxdiag.audit.libraries import table
from mlxdiag.models.adapter import Skipped


class TorchrunRank(Rank):
    """`folder`: of the launch, where checkpoints are written."""

    def __init__(self, folder: Path, rank: int, seed: int) -> None:
        super().__init__(report(folder, rank), seed)
        self.folder = folder
        self.rank = rank

    def trial(self, family: str, kind: str) -> Told:
        from torch import distributed

        self.during = "building"
        instance = table.named("transformers").tiny(family, self.seed, "cpu")
        if isinstance(instance, Skipped):
            return Told(family, kind, "skipped", str(instance))
        if (why := split.refusal(instance)) is not None:
            return Told(family, kind, "unsupported", why)
        checkpoint = self.folder / family
        if self.rank == 0:
            split.save(instance, checkpoint)
        distributed.barrier()
        whole = split.whole(instance, checkpoint)
        try:
            relative = noise.tolerance(noise.floor(whole, self.seed))
            alone = [Alone(whole, name, self.seed) for name in SCHEDULES]
        except Exception as error:  # noqa: BLE001  a family may fail in any way, and splitting is not why
            said = " ".join(str(error).split())[:300]
            return Told(family, kind, "skipped", f"one process fails alike: {type(error).__name__}: {said}")
        self.during = "splitting"
        part = split.part(instance, checkpoint)
        told = Told(family, kind, "done", weights=split.weights(part.model), whole=split.weights(whole.model))
        for reference in alone:
            self.during = reference.name
            found = watch(part, reference, relative)
            told.differences.append(found.difference)
            told.seen += found.seen
            for oracle, count in found.judged.items():
                told.judged[oracle] = told.judged.get(oracle, 0) + count
        return told


def main(arguments: list[str]) -> None:
    """Work through the families in the order given, in step with the other rank."""
    end_with_parent()
    where, seed, *items = arguments
    folder, number = Path(where), int(os.environ["RANK"])
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    loaded = table.named("transformers").load()
    if isinstance(loaded, Skipped):
        raise SystemExit(str(loaded))
    from torch import distributed

    distributed.init_process_group("gloo", timeout=timedelta(seconds=MEETING))
    rank = TorchrunRank(folder, number, int(seed))
    for item in items:
        rank.work(*item.rsplit(":", 1))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
