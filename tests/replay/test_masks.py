"""Expected values: the worked rows of mlxcel's issues (298/128, 1511/1024, 768/512, 700/512)."""

import numpy as np
import pytest

from mlxdiag.replay import masks


@pytest.mark.parametrize(
    ("q", "off", "width", "empty"),
    [(298, 0, 128, 170), (1511, 0, 1024, 487), (768, 768, 512, 256), (700, 0, 512, 188), (512, 512, 512, 0)],
)
def test_a_capped_mask_strands_the_rows_beyond_the_window(q, off, width, empty):
    mask = masks.capped(q, off, width)
    assert mask.shape == (q, width)
    assert int((~mask.any(axis=1)).sum()) == empty


def test_a_capped_mask_narrows_without_empty_rows_when_the_chunk_equals_the_window():
    counts = masks.capped(512, 512, 512).sum(axis=1)
    assert counts[0] == 1
    assert counts[-1] == 512


def test_a_capped_mask_is_the_window_mask_inside_the_window():
    np.testing.assert_array_equal(masks.capped(5, 3, 16), masks.window(5, 3, 16))


@pytest.mark.parametrize(("q", "off", "width"), [(1, 0, 1), (4, 9, 3), (7, 2, 64), (5, 5, 5)])
def test_the_window_counts_the_query_itself(q, off, width):
    mask = masks.window(q, off, width)
    for i in range(q):
        seen = np.flatnonzero(mask[i])
        assert list(seen) == list(range(max(0, i + off - width + 1), i + off + 1))


def test_a_padded_mask_blocks_the_padding_columns_and_nothing_else():
    mask = masks.padded(160, 2048, 153)
    assert mask.shape == (160, 2208)
    assert not mask[:, 2201:].any()
    np.testing.assert_array_equal(mask[:153, :2201], masks.causal(160, 2048)[:153, :2201])


@pytest.mark.parametrize(
    ("q", "m", "off", "padding", "width", "expected"),
    [
        (160, 160, 0, True, None, ("padded", 0)),
        (512, 2048, 1536, False, None, ("causal", 1536)),
        (298, 128, 0, False, 128, ("capped", 0)),
        (7, 563, 556, False, 1024, ("causal", 556)),
        (160, 671, 2048, False, 512, ("window", 511)),
        (160, 161, 7, False, None, None),
    ],
)
def test_the_builder_follows_from_shape_and_offset(q, m, off, padding, width, expected):
    assert masks.guess_builder(q, m, off, padding=padding, width=width) == expected


def test_an_unknown_builder_and_a_missing_window_are_refused():
    with pytest.raises(ValueError, match="known: causal, padded"):
        masks.build("banded", 2, 0)
    with pytest.raises(ValueError, match="needs a window"):
        masks.build("capped", 2, 0)
