"""A rank on a broken library: `python -m tests.audit.distributed.ring.faulty_rank FOLDER SEED ITEM...`.

Each of four families is broken in its own way; the others are as they are.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from mlx_lm.models import gpt_oss, llama, ministral3, qwen3

from mlxdiag.audit.distributed.ring import rank


def sinks_not_split(model: Any, group: Any) -> None:
    """Every rank uses the sinks of the first heads."""
    held = [layer.self_attn.sinks for layer in model.model.layers]
    _gpt_oss(model, group)
    for layer, sinks in zip(model.model.layers, held, strict=True):
        layer.self_attn.sinks = sinks[: layer.self_attn.num_attention_heads]


def raises(model: Any, group: Any) -> None:
    """One rank fails, and the other waits for it."""
    _qwen3(model, group)
    if group.rank() == 1:
        del model.model.layers[1].self_attn.o_proj


def dies(_model: Any, group: Any) -> None:
    if group.rank() == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


def hangs(_model: Any, _group: Any) -> None:
    time.sleep(60)


_gpt_oss, _qwen3 = gpt_oss.Model.shard, qwen3.Model.shard

if __name__ == "__main__":
    gpt_oss.Model.shard = sinks_not_split
    qwen3.Model.shard = raises
    llama.Model.shard = dies
    ministral3.Model.shard = hangs
    rank.main(sys.argv[1:])
