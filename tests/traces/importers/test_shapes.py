"""Error texts: rebuilt from what was understood, and told apart where they look alike."""

from __future__ import annotations

import pytest

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import where_of

CASES = [
    (
        "xx [broadcast_shapes] Shapes (160,160) and (1,8,160,671) cannot be broadcast. yy",
        "[broadcast_shapes] Shapes (160,160) and (1,8,160,671) cannot be broadcast.",
        ((160, 160), (1, 8, 160, 671)),
    ),
    (
        "ValueError: broadcast_shapes: shapes [2, 3] and [4, 3] xx",
        "broadcast_shapes: shapes (2,3) and (4,3) cannot be broadcast.",
        ((2, 3), (4, 3)),
    ),
    (
        "Cannot broadcast array of shape (1, 8, 4, 256) into shape (1, 8, 1029, 256).",
        "Cannot broadcast array of shape (1,8,4,256) into shape (1,8,1029,256).",
        ((1, 8, 4, 256), (1, 8, 1029, 256)),
    ),
    (
        "operands could not be broadcast together with shapes (3,4) (5,4)",
        "operands could not be broadcast together with shapes (3,4) (5,4)",
        ((3, 4), (5, 4)),
    ),
    (
        "E: The size of tensor a (10) must match the size of tensor b (9) at non-singleton dimension 3",
        "The size of tensor a (10) must match the size of tensor b (9) at non-singleton dimension 3",
        (),
    ),
    (
        "panicked: caller mask key axis (9) is shorter than the returned key length (10) for a secret",
        "mask key axis (9) is shorter than the returned key length (10)",
        (),
    ),
    (
        "[rope] offset must be a scalar or vector with 16 elements but has shape (4).",
        "[rope] offset must be a scalar or vector with 16 elements",
        (),
    ),
    (
        "NotImplementedError: RotatingKVCache Quantization NYI",
        "NotImplementedError: RotatingKVCache Quantization NYI",
        (),
    ),
    (
        "AttributeError: 'ArraysCache' object has no attribute 'offset'",
        "AttributeError: 'ArraysCache' object has no attribute 'offset'",
        (),
    ),
    ("Detected errors during sampling! NaN in the logits.", "NaN in the logits", ()),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text", "pair"), CASES)
def test_families_of_messages(line, text, pair):
    told = shapes.read(line)
    assert (told.text, told.shapes) == (text, pair)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Shapes are nice",
        "AttributeError: 'JanesSecretCache' object has no attribute 'offset'",
        "AttributeError: 'KVCache' object has no attribute 'janes_secret'",
        "ValueError: cannot reshape array of size 5 into shape (2,3)",
    ],
)
def test_other_texts_are_not_understood(line):
    assert shapes.read(line) is None


def call(pair, where=""):
    return shapes.attention_of(shapes.read(f"[broadcast_shapes] Shapes {pair} cannot be broadcast"), where)


@pytest.mark.parametrize(
    ("pair", "mask", "q", "k"),
    [
        ("(298,128) and (1,64,298,298)", (298, 128), 298, 298),
        ("(1,64,298,298) and (298,128)", (298, 128), 298, 298),
        ("(19,19) and (1,4,19,531)", (19, 19), 19, 531),
        ("(2,1,5,9) and (2,8,5,12)", (2, 1, 5, 9), 5, 12),
        ("(1,300) and (1,32,1,301)", (1, 300), 1, 301),
    ],
)
def test_the_mask_is_the_side_without_heads(pair, mask, q, k):
    found = call(pair)
    assert (found.mask, found.q, found.k, found.fate) == (mask, q, k, "rejected")


@pytest.mark.parametrize(
    ("pair", "where"),
    [
        ("(1,8,96,128) and (1,8,256,128)", ""),  # two rows of a cache
        ("(298,128) and (1,64,298,298)", "mlx_lm.models.cache.merge"),  # a frame says so
        ("(7,64) and (1,8,5,64)", ""),  # the query axis
        ("(7,60) and (1,8,5,64)", ""),  # both axes
        ("(1,64,1,130) and (1,64,1,129)", ""),  # both have heads
        ("(3,4) and (5,4)", ""),  # no scores
    ],
)
def test_nothing_is_made_of_shapes_that_leave_a_doubt(pair, where):
    assert call(pair, where) is None


@pytest.mark.parametrize(
    ("path", "function", "where"),
    [
        ("/x/site-packages/mlx_lm/models/cache.py", "merge", "mlx_lm.models.cache.merge"),
        ("/x/vllm/v1/attention/backend.py", "secret_name", "vllm.v1.attention.backend"),
        ("C:\\x\\transformers\\cache_utils.py", "update", "transformers.cache_utils.update"),
        ("/home/jane/project/cache.py", "merge", "cache.merge"),
        ("/home/jane/project/run.py", "merge", "merge"),
        ("/home/jane/project/run.py", "secret", None),
        ("/home/jane/mlx_lm_fork/run.py", "secret", None),
    ],
)
def test_frames_are_named_only_where_everybody_knows_them(path, function, where):
    assert where_of(path, function) == where
