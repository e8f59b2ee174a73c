"""The intervention: what it returns is what the kernel really computes with, and what is read afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.models.seeing import layer, visible
from tests.models.torch.probing import Driver, W, wrong

ATTENTION = ["sdpa", "eager"]


def logits(driver: Driver, positions: range) -> Any:
    with driver.probe, torch.no_grad():
        tokens = torch.tensor([[p + 10 for p in positions]])
        return driver.model.model(input_ids=tokens, cache=driver.cache).logits


def band(q: int, k: int, window: int | None) -> np.ndarray[Any, Any]:
    query, key = np.arange(q)[:, None] + k - q, np.arange(k)[None]
    return (key <= query) & (key > query - (window or k))


def widths(event: Any) -> int | None:
    return W if event.window is not None else None


class TestMasks:
    @pytest.mark.parametrize("attention", ATTENTION)
    @pytest.mark.parametrize("form", ["boolean", "additive", "three axes", "four axes"])
    def test_the_right_mask_in_any_form_changes_nothing(self, attention: str, form: str) -> None:
        def attend(event: Any, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
            built: Any = band(event.q, event.k, widths(event))
            built = {
                "boolean": built,
                "additive": np.where(built, 0.0, -np.inf),
                "three axes": built[None],
                "four axes": built[None, None],
            }[form]
            return keys, values, built, None, None

        own = Driver("gemma3_text", attention, attend)
        plain = Driver("gemma3_text", attention)
        for at, n in ((0, 12), (12, 5), (17, 1)):
            expected = logits(plain, range(at, at + n))
            got = logits(own, range(at, at + n))
            assert (got - expected).abs().max() < 1e-4 * expected.std()

    @pytest.mark.parametrize("attention", ATTENTION)
    def test_a_narrower_mask_reaches_the_kernel(self, attention: str) -> None:
        """With a window of one on every layer, a token's logits depend on nothing before it."""

        def alone(event: Any, _queries: Any, keys: Any, values: Any, _mask: Any) -> Any:
            return keys, values, band(event.q, event.k, 1), "rebuilt", None

        driver = Driver("gemma3_text", attention, alone)
        step = driver.feed(range(12))
        assert all(visible(event, 0, i) == [(0, i)] for event in step.attention for i in range(event.q))
        first = Driver("gemma3_text", attention, alone)
        second = Driver("gemma3_text", attention, alone)
        one = logits(first, range(12))[0, -1]
        two = logits(second, range(3, 12))[0, -1]
        # RoPE turns a lone query and its key alike, so the position does not matter either.
        assert (one - two).abs().max() < 1e-4 * one.std()

    def test_a_bias_is_added_to_the_scores(self) -> None:
        def biased(event: Any, _queries: Any, keys: Any, values: Any, _mask: Any) -> Any:
            scores = np.where(band(event.q, event.k, widths(event)), 0.0, -np.inf)
            scores[:, 0] += 3.0
            return keys, values, scores, None, None

        results = [logits(Driver("gemma3_text", a, biased), range(6)) for a in ATTENTION]
        assert (results[0] - results[1]).abs().max() < 1e-3 * results[0].std()
        plain = logits(Driver("gemma3_text", "sdpa"), range(6))
        assert (results[0] - plain).abs().max() > 0.05 * plain.std()

    @pytest.mark.parametrize(("attention", "fallback"), [("sdpa", "oldest"), ("eager", "none")])
    def test_what_no_mask_comes_to_is_what_is_told(self, attention: str, fallback: str) -> None:
        def drop(event: Any, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
            return keys, values, None if event.offset else mask, "discarded" if event.offset else None, "none"

        driver = Driver("gemma3_text", attention, drop)
        driver.feed(range(12))
        event = layer(driver.feed(range(12, 17)), 1)
        assert (event.fate, event.fallback, event.mask) == ("discarded", fallback, (1, 1, 5, 17))
        assert event.seen is not None
        sees = [len(visible(event, 0, i)) for i in range(5)]
        assert sees == ([1, 2, 3, 4, 5] if attention == "sdpa" else [17] * 5)


class TestKeys:
    @pytest.mark.parametrize("attention", ATTENTION)
    def test_the_newest_keys_with_a_mask_for_them(self, attention: str) -> None:
        """Right on sliding layers: the band of the last W - 1 + q keys, as a mask cropped at its old end."""

        def newest(event: Any, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
            if event.window is None or event.k <= W:
                return keys, values, mask, None, None
            k = min(event.k, W - 1 + event.q)
            return keys[..., -k:, :], values[..., -k:, :], band(event.q, k, W), "used", "sliced"

        driver = Driver("gemma3_text", attention, newest)
        plain = Driver("gemma3_text", attention)
        for at, n in ((0, 20), (20, 5)):
            assert wrong(driver, driver.feed(range(at, at + n))) == {}
            plain.feed(range(at, at + n))
        expected, got = (logits(d, range(25, 28)) for d in (plain, driver))
        assert (got - expected).abs().max() < 1e-4 * expected.std()

    def test_what_was_cut_off_is_not_seen(self) -> None:
        def halved(event: Any, _queries: Any, keys: Any, values: Any, _mask: Any) -> Any:
            k = event.k // 2
            return keys[..., -k:, :], values[..., -k:, :], np.ones((event.q, k), bool), None, None

        event = layer(Driver("gemma3_text", "sdpa", halved).feed(range(12)), 1)
        assert event.k_seen == 12
        assert visible(event, 0, 0) == [(0, p) for p in range(6, 12)]


class TestPositions:
    def test_the_position_given_to_rope(self) -> None:
        driver = Driver("gemma3_text")
        assert [layer(s, 1).rope for s in driver.chunks((5, 7, 1))] == [0, 5, 12]
        step = driver.feed([13], position_ids=torch.tensor([[20]]))
        assert (layer(step, 1).rope, layer(step, 1).offset) == (20, 13)

    def test_of_left_padded_rows_it_is_counted_back_from_the_first_token(self) -> None:
        driver = Driver("gemma3_text")
        positions = np.array([np.arange(-3, 4), np.arange(7)])
        ids = np.where(positions < 0, 1, positions)
        mask = (positions >= 0).astype(int)
        step = driver.feed(positions, (0, 1), positions >= 0, mask=mask, position_ids=torch.from_numpy(ids))
        event = layer(step, 1)
        assert (event.kind, event.rope, event.offset, event.cursor) == ("batch", [-3, 0], [-3, 0], 0)
        assert event.left_padding == [3, 0]
