from __future__ import annotations

import numpy as np
import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models.torch.held import Held

PAD, REAL = False, True


def test_without_padding_there_is_no_mask_and_positions_count_on() -> None:
    held = Held(object())
    mask, positions = held.advance(2, 3)
    assert mask is None
    assert positions.tolist() == [[0, 1, 2]] * 2
    mask, positions = held.advance(2, 1)
    assert mask is None
    assert positions.tolist() == [[3]] * 2
    assert (held.total, held.padded) == (4, False)


def test_a_program_may_give_fewer_columns_than_there_are_tokens_for_one_forward() -> None:
    held = Held(object())
    held.advance(1, 4)
    held.columns = 2
    mask, positions = held.advance(1, 1)
    assert mask is not None
    assert (mask.tolist(), positions.tolist()) == ([[REAL, REAL]], [[4]])
    assert held.advance(1, 1)[0] is None


def test_announced_left_padding_is_masked_and_does_not_count() -> None:
    held = Held(object())
    held.announce(np.array([[PAD, PAD], [REAL, REAL]]))
    mask, positions = held.advance(2, 4)
    assert mask is not None
    assert mask.tolist() == [[PAD, PAD, REAL, REAL], [REAL] * 4]
    assert positions.tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]
    mask, positions = held.advance(2, 1)
    assert mask is not None
    assert mask.shape == (2, 5)
    assert positions.tolist() == [[2], [4]]


def test_padding_that_is_longer_than_a_chunk_goes_on_in_the_next() -> None:
    held = Held(object())
    held.announce(np.array([[PAD, PAD, PAD], [REAL, REAL, REAL]]))
    held.advance(2, 2)
    assert held.ahead is not None
    mask, positions = held.advance(2, 2)
    assert held.ahead is None
    assert mask is not None
    assert mask[0].tolist() == [PAD, PAD, PAD, REAL]
    assert positions.tolist() == [[0, 0], [2, 3]]


def test_two_announcements_follow_each_other() -> None:
    held = Held(object())
    held.announce(np.array([[PAD]]))
    held.announce(np.array([[REAL, PAD]]))
    mask, _ = held.advance(1, 3)
    assert mask is not None
    assert mask.tolist() == [[PAD, REAL, PAD]]


def test_a_batch_of_another_size_is_refused() -> None:
    held = Held(object())
    held.advance(2, 1)
    with pytest.raises(UsageError, match="3 rows are fed to a cache of 2"):
        held.advance(3, 1)
    padded = Held(object())
    padded.announce(np.array([[PAD]]))
    with pytest.raises(UsageError, match="2 rows are fed to a cache of 1"):
        padded.advance(2, 1)


def test_tokens_that_were_taken_back_leave_the_mask() -> None:
    held = Held(object())
    held.announce(np.array([[PAD]]))
    held.advance(1, 4)
    held.cut(0)
    assert held.total == 4
    held.cut(3)
    assert held.mask is not None
    assert held.mask.tolist() == [[PAD]]
