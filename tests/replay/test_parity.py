import numpy as np

from mlxdiag.replay.parity import compare


def logits(*rows):
    return np.array(rows, dtype=np.float32)


REFERENCE = logits([0, 1, 2], [0, 5, 1], [3, 2.5, 0])


def test_equal_logits_agree():
    result = compare(REFERENCE[1:], REFERENCE, [1, 2], 1e-3)
    assert (result.count, result.max_abs, result.first) == (2, 0.0, None)


def test_the_first_difference_is_named_by_position_with_the_references_margin():
    seen = REFERENCE[1:] + logits([0, 0, 0], [0, 0, 0.25])
    result = compare(seen, REFERENCE, [1, 2], 1e-3)
    assert (result.first, result.max_abs, result.margin) == (2, 0.25, 0.5)


def test_a_nan_is_an_infinite_difference_and_never_agreement():
    seen = REFERENCE.copy()
    seen[1, 0] = np.nan
    result = compare(seen, REFERENCE, [0, 1, 2], 1e-3)
    assert (result.first, result.max_abs) == (1, np.inf)


def test_a_difference_within_the_tolerance_is_none():
    assert compare(REFERENCE + np.float32(5e-4), REFERENCE, [0, 1, 2], 1e-3).first is None


def test_every_differing_position_is_told():
    seen = REFERENCE + logits([0, 0, 1], [0, 0, 0], [0, np.nan, 0])
    assert compare(seen[[2, 1, 0]], REFERENCE, [2, 1, 0], 1e-3).wrong == (2, 0)
