"""Real caches of transformers under the probe: healthy runs give no finding, planted faults their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, QuantizedCache, StaticCache

from mlxdiag.inspect import geometry
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.attention_entries import to_attention
from mlxdiag.traces.types import Entry, Header, Row, Trace
from tests.models.torch.probing import Driver, W

ROOM = 48
CACHES = {
    "dynamic": lambda config: DynamicCache(config=config),
    "static": lambda config: StaticCache(config=config, max_cache_len=ROOM),
    "recording": lambda config: _recording(config),
}


def _recording(config: Any) -> Any:
    cache = DynamicCache(config=config)
    cache.activate_past_recording()
    return cache


class Recorded(Driver):
    """A driver at the shapes level that writes a trace as it goes."""

    def __init__(self, family: str, attention: str | None = None, cache: str = "dynamic") -> None:
        super().__init__(family, attention, level="shapes")
        self.cache = CACHES[cache](self.model.model.config)
        self.entries = [self.model.geometry.model_entry(family)]
        self.at = 0

    def go(self, n: int, rows: int = 1, **more: Any) -> None:
        at, self.at = self.at, self.at + n
        seqs = tuple(range(rows))
        step = self.feed([range(at, at + n)] * rows, seqs, **more)
        offsets = step.offset if isinstance(step.offset, list) else [at] * rows
        fed = [Row(seq=f"s{i}", offset=offsets[i], tokens=n) for i in seqs]
        attention = to_attention(step.attention, self.model.geometry)
        self.entries.append(Entry(step=len(self.entries), rows=fed, attention=attention))

    def findings(self) -> Any:
        return inspect_trace(Trace(Header(), self.entries)).findings


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", CACHES)
@settings(max_examples=12, deadline=None)
@given(schedule=st.lists(st.sampled_from([1, 1, 2, 3, W - 1, W, W + 1, 12]), min_size=1, max_size=7))
def test_no_finding_in_any_healthy_schedule(attention: str, cache: str, schedule: list[int]) -> None:
    driver = Recorded("gemma3_text", attention, cache)
    for n in schedule:
        if driver.at + n <= ROOM:
            driver.go(n)
    assert driver.findings() == []
    judged = inspect_trace(Trace(Header(), driver.entries)).summary
    assert judged.not_observed == 0


@pytest.mark.parametrize("cache", CACHES)
def test_the_closed_forms_are_the_caches_own(cache: str) -> None:
    """`returned_keys` against what the layer says of itself to the mask, on both sides of the window."""
    driver = Recorded("gemma3_text", "eager", cache)
    for n in (3, 1, 4, 1, 1, 9, 2):
        layers = driver.cache.layers
        before = driver.at
        says = [layer.get_mask_sizes(n)[0] for layer in layers]
        driver.go(n)
        for event in driver.step().attention:
            assert event.k == says[event.layer or 0]
            assert event.kind is not None
            bounds = geometry.returned_bounds(
                event.kind, n, before, window=W if event.index in (0, 2) else None, buffer=event.buffer
            )
            assert bounds == (event.k, event.k)


def test_a_static_cache_smaller_than_the_window() -> None:
    driver = Recorded("gemma3_text", "sdpa")
    driver.cache = StaticCache(config=driver.model.model.config, max_cache_len=6)
    for n in (3, 1, 2):
        driver.go(n)
    assert driver.findings() == []


def test_a_quantised_cache() -> None:
    driver = Recorded("llama", "sdpa")
    driver.cache = QuantizedCache(backend="fp8", config=driver.model.model.config)
    for n in (5, 1, 7, 1):
        driver.go(n)
    (call,) = driver.entries[-1].attention or []
    assert (call.cache, call.kv_bits, call.k) == ("quantized", 8, 14)
    assert driver.findings() == []


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_left_padded_rows(attention: str) -> None:
    driver = Recorded("gemma3_text", attention)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, :5] = 0
    driver.go(12, rows=2, mask=mask)
    for _ in range(4):
        mask = torch.nn.functional.pad(mask, (0, 1), value=1)
        driver.go(1, rows=2, mask=mask)
    assert driver.findings() == []


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_padding_mask_of_the_chunk_alone(attention: str) -> None:
    driver = Recorded("gemma3_text", attention)
    driver.go(12)
    driver.go(5, mask=[[1] * 5])
    assert codes(driver.findings()) == {"MD111"}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_padding_mask_of_one_column_at_decode(attention: str) -> None:
    driver = Recorded("gemma3_text", attention)
    driver.go(12)
    driver.go(1, mask=[[1]])
    assert codes(driver.findings()) == {"MD111"}


def test_no_mask_on_a_continuation_under_sdpa() -> None:
    driver = Recorded("gemma3_text", "sdpa")
    driver.go(12)
    driver.go(5, mask={"full_attention": None, "sliding_attention": None})
    assert codes(driver.findings()) == {"MD110"}
    assert [finding.family for finding in driver.findings()] == ["sliding, full"]


def test_sliding_layers_that_are_given_the_full_layers_mask() -> None:
    """Moshi slides by its config and its caches, and is given one causal mask for every layer."""
    driver = Recorded("moshi", "eager")
    driver.go(5)
    assert driver.findings() == []
    driver.go(7)
    assert codes(driver.findings()) == {"MD108"}
