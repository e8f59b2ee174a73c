"""A rank of which some families' parts are broken, by torchrun: `-m tests...faulty_rank FOLDER SEED ITEM...`.

They are broken after each rank computed alone, and but for one family only in the second rank.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from mlxdiag.audit.distributed.torchrun import rank, split
from mlxdiag.models.torch.instance import TorchInstance

WIDE = 1000


def drops_its_window(part: TorchInstance) -> None:
    """Its masks, and not those that it made alone, follow a window that no schedule fills."""
    module, forward = part.module, part.model.forward
    made = module.create_sliding_window_causal_mask
    wide = copy.copy(part.model.config)
    wide.sliding_window = WIDE

    def too_wide(*_: Any, **given: Any) -> Any:
        return made(**{**given, "config": wide})

    def forwarded(*given: Any, **named: Any) -> Any:
        with mock.patch.object(module, "create_sliding_window_causal_mask", too_wide):
            return forward(*given, **named)

    part.model.forward = forwarded


def loses_its_heads(part: TorchInstance) -> None:
    """What it sums up with the other rank lacks what its own heads of one layer have read."""
    part.model.model.layers[1].self_attn.o_proj.weight.to_local().data.zero_()


def lacks_a_projection(part: TorchInstance) -> None:
    del part.model.model.layers[1].self_attn.o_proj


def dies(_part: TorchInstance) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


FAULTS: dict[str, Callable[[TorchInstance], None]] = {
    "gemma3_text:eager": drops_its_window,
    "gemma2": loses_its_heads,
    "llama": dies,
}
ALIKE: dict[str, Callable[[TorchInstance], None]] = {"qwen2": lacks_a_projection}
"""In both ranks."""
_part = split.part


def part(instance: TorchInstance, folder: Path, kind: str) -> TorchInstance:
    made = _part(instance, folder, kind)
    if os.environ["RANK"] == "1" and instance.name in FAULTS:
        FAULTS[instance.name](made)
    if instance.name in ALIKE:
        ALIKE[instance.name](made)
    return made


if __name__ == "__main__":
    split.part = part
    rank.main(sys.argv[1:])
