"""One rank of a split model, started by torchrun with the arguments FOLDER SEED FAMILY:KIND....

Both ranks build the same tiny model from the same seed, and the first writes it down as a checkpoint. Each
loads it whole and computes alone, loads its part of it (of each layer, or some of the layers), runs the same
schedules again under the probe, and tells how far its logits are from its own, and what its heads saw.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path

import msgspec

from mlxdiag.audit.distributed.launch import RANKS
from mlxdiag.audit.distributed.rank import MEETING, Rank, end_with_parent, report
from mlxdiag.audit.distributed.schedules import SCHEDULES
from mlxdiag.audit.distributed.told import Told
from mlxdiag.audit.distributed.torchrun import split
from mlxdiag.audit.distributed.torchrun.watched import Alone, watch
from mlxdiag.audit.judge import noise
from mlxdiag.audit.libraries import table
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch.instance import TorchInstance

ANSWER = 3.0
"""Seconds after a failure in which the other rank may fail as well."""


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
        assert isinstance(instance, TorchInstance)
        if (why := split.refusal(instance, kind)) is not None:
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
        part = split.part(instance, checkpoint, kind)
        told = Told(family, kind, "done", weights=split.weights(part.model), whole=split.weights(whole.model))
        for reference in alone:
            self.during = reference.name
            found = watch(part, reference, relative)
            told.differences.append(found.difference)
            told.seen += found.seen
            for oracle, count in found.judged.items():
                told.judged[oracle] = told.judged.get(oracle, 0) + count
        if self.rank == 0:
            shutil.rmtree(checkpoint)
        return told

    def agreed(self, told: Told) -> bool:
        """Both ranks run the same code on parts of the same shape, so what fails in one fails in the other,
        behind as many collectives; and starting torchrun again takes longer than most families do."""
        from torch import distributed, ones

        deadline = time.monotonic() + ANSWER
        while (answer := last(report(self.folder, 1 - self.rank), told)) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        if (answer.state, answer.during, answer.error) != (told.state, told.during, told.error):
            return False
        count = ones(3)
        distributed.all_reduce(count)
        return bool((count == RANKS).all())


def last(report: Path, about: Told) -> Told | None:
    """How a rank ended this item; None while it has not."""
    for line in reversed(report.read_bytes().splitlines(keepends=True)):
        if line.endswith(b"\n"):
            told = msgspec.json.decode(line, type=Told)
            if (told.family, told.kind) == (about.family, about.kind):
                return told if told.state != "begun" else None
    return None


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

    distributed.init_process_group("gloo", timeout=timedelta(seconds=2 * MEETING))
    rank = TorchrunRank(folder, number, int(seed))
    for item in items:
        rank.work(*item.rsplit(":", 1))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
