"""What is told of a cache between forwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache

from mlxdiag.models.events import CacheEvent
from tests.models.torch.probing import Driver


def started(n: int = 6, rows: int = 1, cache: Any = None) -> Driver:
    driver = Driver("gemma3_text", level="shapes")
    driver.cache = driver.cache if cache is None else cache(driver.model.model.config)
    driver.feed([range(n)] * rows, tuple(range(rows)))
    driver.told.clear()
    return driver


def events(driver: Driver) -> list[CacheEvent]:
    return [event for event in driver.told if isinstance(event, CacheEvent)]


def static(config: Any) -> Any:
    return StaticCache(config=config, max_cache_len=8)


@pytest.mark.parametrize("cache", [None, static])
def test_a_crop_is_told_once_a_layer(cache: Any) -> None:
    driver = started(cache=cache)
    with driver.probe:
        driver.cache.crop(-2)
    told = events(driver)
    assert [(e.op, e.asked, e.done, e.before, e.after) for e in told] == [("trim", 2, 2, 6, 4)] * 4
    assert [e.layer for e in told] == [0, 1, 2, 3]
    assert {e.model for e in told} == {"m1"}


def test_a_crop_beyond_the_window_is_refused_and_told() -> None:
    driver = started(12)
    with driver.probe, pytest.raises(RuntimeError, match="activate_past_recording"):
        driver.cache.crop(-2)
    (event,) = events(driver)
    assert (event.kind, event.asked, event.done, event.before) == ("rotating", 2, 0, 12)
    assert event.error is not None
    assert event.error.startswith("RuntimeError")


def test_a_cache_that_recorded_its_past_gives_back() -> None:
    driver = Driver("gemma3_text", level="shapes")
    driver.cache.activate_past_recording()
    driver.feed(range(12))
    assert [event.slack for event in driver.step().attention] == [5, None, 5, None]
    driver.told.clear()
    with driver.probe:
        driver.cache.crop(-2)
    assert [(e.done, e.after) for e in events(driver)] == [(2, 10)] * 4


def test_a_crop_of_nothing_is_nothing() -> None:
    driver = started(12)
    with driver.probe, pytest.raises(RuntimeError):
        driver.cache.crop(0)
    assert events(driver) == []


def test_a_reset_gives_everything_back() -> None:
    driver = started()
    with driver.probe:
        driver.cache.reset()
    assert [(e.op, e.asked, e.done, e.after) for e in events(driver)] == [("trim", 6, 6, 0)] * 4


def test_rows_that_are_kept_repeated_and_reordered() -> None:
    driver = started(rows=3)
    with driver.probe:
        driver.cache.batch_select_indices(torch.tensor([2, 0]))
        driver.cache.batch_repeat_interleave(2)
        driver.cache.reorder_cache(torch.tensor([3, 0]))
    told = [(e.op, e.rows) for e in events(driver) if e.layer == 1]
    assert told == [("filter", [2, 0]), ("filter", [0, 0, 1, 1]), ("filter", [3, 0])]


def test_a_cache_that_no_watched_model_used_is_nobodys_business() -> None:
    driver = started()
    other = DynamicCache(config=driver.model.model.config)
    with torch.no_grad():
        driver.model.model(input_ids=torch.arange(5, 9)[None], cache=other)
    with driver.probe:
        other.crop(-1)
    assert events(driver) == []


def test_a_ring_that_recorded_its_past_tells_what_it_can_give_back() -> None:
    driver = Driver("gemma3_text", level="shapes")
    driver.cache.activate_past_recording()
    driver.feed([range(12)], (0,))
    driver.told.clear()
    with driver.probe:
        driver.cache.crop(-3)
        driver.cache.crop(-1)
    first, second = events(driver)[:4], events(driver)[4:]
    # A window of 8 keeps 7 keys; 12 are held, and full layers need no slack.
    assert [e.slack for e in first] == [5, None, 5, None]
    assert [e.slack for e in second] == [None] * 4
