"""Left padding followed through the life of a batch, from what the program passes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.models.seeing import layer
from tests.models.torch.probing import Driver, W


def padded(*left: int, length: int = 6) -> list[list[int]]:
    return [[0] * n + [1] * (length - n) for n in left]


def fed(driver: Driver, q: int, mask: Any, rows: int = 2) -> Any:
    """Shapes level: nobody tells the probe what is fed."""
    return driver.feed([range(q)] * rows, tuple(range(rows)), mask=mask)


class TestFromTheMask:
    def test_offsets_are_those_of_the_rows(self) -> None:
        driver = Driver("gemma3_text", level="shapes")
        event = layer(fed(driver, 6, padded(2, 0)), 1)
        assert (event.kind, event.offset, event.cursor, event.k) == ("batch", [-2, 0], 0, 6)
        event = layer(fed(driver, 1, padded(2, 0, length=7)), 1)
        assert (event.kind, event.offset, event.cursor, event.k) == ("batch", [4, 6], 6, 7)
        assert event.left_padding == [2, 0]

    def test_a_ring_drops_its_padding(self) -> None:
        driver = Driver("gemma3_text", level="shapes")
        fed(driver, 12, padded(2, 0, length=12))
        event = layer(fed(driver, 1, padded(2, 0, length=13)), 0)
        # Twelve columns went in and the last seven are held: five are gone, the two of padding among them.
        assert (event.kind, event.offset, event.left_padding) == ("batch_rotating", [10, 12], [-3, -5])
        assert event.k == W

    @pytest.mark.parametrize("mask", [None, padded(0, 0)])
    def test_without_padding_rows_share_an_offset(self, mask: Any) -> None:
        driver = Driver("gemma3_text", level="shapes")
        event = layer(fed(driver, 6, mask), 1)
        assert (event.kind, event.offset, event.left_padding) == ("dense", 0, None)

    def test_padding_over_several_chunks(self) -> None:
        driver = Driver("gemma3_text", level="shapes")
        fed(driver, 3, padded(3, 0, length=3))
        assert layer(fed(driver, 3, padded(5, 0, length=6)), 1).offset == [-2, 3]
        assert layer(fed(driver, 1, padded(5, 0, length=7)), 1).offset == [1, 6]

    def test_a_single_padded_row(self) -> None:
        event = layer(fed(Driver("gemma3_text", level="shapes"), 6, padded(2), rows=1), 1)
        assert (event.kind, event.offset, event.cursor) == ("batch", [-2], 0)

    def test_a_cache_that_begins_again(self) -> None:
        driver = Driver("gemma3_text", level="shapes")
        fed(driver, 6, padded(2, 0))
        driver.cache.reset()
        assert layer(fed(driver, 6, padded(0, 4)), 1).offset == [0, -4]


class TestRowsThatMove:
    def start(self) -> Driver:
        driver = Driver("gemma3_text", level="shapes")
        fed(driver, 6, padded(2, 0, 4), rows=3)
        return driver

    def test_selected(self) -> None:
        driver = self.start()
        with driver.probe:
            driver.cache.batch_select_indices(torch.tensor([2, 0]))
        assert layer(fed(driver, 1, padded(4, 2, length=7)), 1).offset == [2, 4]

    def test_repeated_and_reordered(self) -> None:
        driver = self.start()
        with driver.probe:
            driver.cache.batch_repeat_interleave(2)
            driver.cache.reorder_cache(torch.tensor([0, 2, 4, 4, 3, 1]))
        # Rows 2 2 0 0 4 4 by their padding, then picked.
        event = layer(fed(driver, 1, padded(2, 0, 4, 4, 0, 2, length=7), rows=6), 1)
        assert event.offset == [4, 6, 2, 2, 6, 4]

    def test_in_a_copy_of_the_cache(self) -> None:
        driver = self.start()
        driver.cache = copy.deepcopy(driver.cache)
        event = layer(fed(driver, 1, torch.ones(3, 1, 1, 7, dtype=torch.bool), rows=3), 1)
        assert (event.offset, event.left_padding) == ([4, 6, 2], [2, 0, 4])

    def test_of_another_number_is_not_known(self) -> None:
        driver = self.start()
        driver.cache.batch_select_indices(torch.tensor([2, 0]))
        event = layer(fed(driver, 1, torch.ones(2, 1, 1, 7, dtype=torch.bool)), 1)
        assert (event.kind, event.offset, event.cursor) == ("batch", None, 6)
