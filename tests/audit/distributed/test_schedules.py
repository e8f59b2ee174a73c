"""The schedules of split models: their lengths, their tokens, and what is a difference."""

from __future__ import annotations

import numpy as np
import pytest

from mlxdiag.audit.distributed.schedules import LENGTH, SCHEDULES, compare, run, tokens
from mlxdiag.models.mlx import zoo


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_feeds_all_tokens_past_two_windows(name: str) -> None:
    rows, pieces = SCHEDULES[name]
    assert sum(pieces) == LENGTH > 2 * 8
    assert rows in (1, 2)


def test_tokens_are_all_different_and_a_schedule_gives_logits_for_each() -> None:
    instance = zoo.tiny("qwen2")
    ids = tokens(instance, 0)
    assert len(np.unique(ids)) == 2 * LENGTH
    assert run(instance, ids, *SCHEDULES["two rows of one length"]).shape == (2 * LENGTH, instance.vocab)


def test_only_what_is_past_the_tolerance_is_a_difference() -> None:
    reference = np.zeros((4, 3), np.float32)
    reference[:, 0] = 2.0
    seen = reference.copy()
    seen[1, 2] += 0.4
    seen[3, 1] = np.nan
    found = compare("chunked prefill", seen, reference, 0.5)
    assert (found.compared, found.positions, found.margin) == (4, [3], 2.0)
    # JSON has no infinity.
    assert found.max_abs == 1e38
