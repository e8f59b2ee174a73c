"""Shape errors as they stand in public reports: which axis, which side is the mask, by how much."""

from __future__ import annotations

import pytest

from mlxdiag.inspect import crash
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

PUBLIC = [
    # lablup/mlxcel#412
    ("[broadcast_shapes] Shapes (298,128) and (1,64,298,298) cannot be broadcast.", "", "keys", (128, 298)),
    # lablup/mlxcel#419
    (
        "[broadcast_shapes] Shapes (512,2048) and (1,8,512,1536) cannot be broadcast.",
        "",
        "keys",
        (2048, 1536),
    ),
    # ml-explore/mlx-swift-lm#27
    (
        "MLX/ErrorHandler.swift:343: Fatal error: [broadcast_shapes] Shapes (19,19) and (1,4,19,531) cannot "
        "be broadcast. at /x/mlx-c/mlx/c/fast.cpp:598",
        "",
        "keys",
        (19, 531),
    ),
    # Blaizzy/mlx-vlm#251
    ("Shapes (1,300) and (1,32,1,301) cannot be broadcast.", "", "keys", (300, 301)),
    # ml-explore/mlx-swift-examples#371: four axes on both sides, with a sink column too many
    ("Shapes (1,64,1,130) and (1,64,1,129) cannot be broadcast.", "", "keys", (130, 129)),
    # ml-explore/mlx-lm#735, in a merge: axis 2 is the length
    (
        '  File "cache.py", line 1188, in merge\nValueError: [broadcast_shapes] Shapes (1,16,256,128) and '
        "(1,16,7,128) cannot be broadcast.",
        "",
        "length",
        (256, 7),
    ),
    # Blaizzy/mlx-vlm#1900
    ("Cannot broadcast array of shape (1,8,0,256) into shape (1,8,24,256)", "merge", "length", (0, 24)),
    # mask 320 x 320 against 293 queries, query and key axis both
    ("Shapes (320,293) and (1,8,293,293) cannot be broadcast.", "attention", "queries", (320, 293)),
    # ml-explore/mlx-lm#1139: keys of 2 rows, offsets of 5
    ("[concatenate] provided shapes are (2,8,256) and (5,1,1)", "extend", "metadata", None),
    # waybarrios/vllm-mlx#49
    ("Cannot broadcast array of shape (2,8,1,128) into shape (1,8,1,128)", "extend", "batch", (2, 1)),
    # pytorch/executorch#22865 and every eager attention in torch
    (
        "RuntimeError: The size of tensor a (1024) must match the size of tensor b (128) at non-singleton "
        "dimension 3",
        "",
        "keys",
        (128, 1024),
    ),
    # Blaizzy/mlx-vlm#1083
    ("[rope] offset must be a scalar or vector with 16 elements", "", "metadata", None),
    # Blaizzy/mlx-vlm#1558
    ("[reshape] Cannot infer the shape of an empty array", "", "empty", None),
    # lablup/mlxcel#891, first version
    ("panicked: mask key axis (9) is shorter than the returned key length (10)", "", "keys", (9, 10)),
]


@pytest.mark.parametrize(("text", "where", "axis", "sizes"), PUBLIC)
def test_public_shape_errors_are_read(text, where, axis, sizes):
    read = crash.read(text, where=where)
    assert read is not None
    assert read.axis == axis
    if sizes is not None:
        assert read.sizes == sizes


@pytest.mark.parametrize(
    "text",
    [
        "[metal::malloc] Attempting to allocate 12884901888 bytes which is greater than the maximum",
        "KeyError: 'sliding_window'",
        "NotImplementedError: RotatingKVCache Quantization NYI",
        "",
        "values (1,2) and (3,4)",
    ],
)
def test_other_errors_are_not_taken_for_shape_errors(text):
    assert crash.read(text) is None


def test_shapes_that_fit_are_no_crash():
    assert crash.read("Shapes (1,300) and (1,32,7,300) cannot be broadcast.") is None


def test_recorded_shapes_are_believed_over_the_text():
    read = crash.read("broadcast error", [(298, 128), (1, 64, 298, 298)])
    assert read is not None
    assert (read.axis, read.by) == ("keys", 170)


def test_a_crash_at_a_call_that_explains_it_is_one_finding():
    """gpt_oss under a strict consumer: crash, mask too short, capped mask; one headline with its causes."""
    report = inspect_trace(
        parse(
            """
            model: {layers: {sliding: {attention: sliding, window: 128}}}
            steps:
            - {step: 0, rows: [{offset: 0, tokens: 298}], attention: [{family: sliding, k: 298,
               mask: [298, 128],
               fate: rejected}], error: {text: "[broadcast_shapes] Shapes (298,128) and (1,64,298,298)
               cannot be broadcast."}}
            """
        )
    )
    assert [finding.code for finding in report.findings] == ["MD901"]
    assert [cause[:5] for cause in report.findings[0].cause] == ["MD101", "MD107"]
    assert report.findings[0].evidence["empty_rows"] == 170
