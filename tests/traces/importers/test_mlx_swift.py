from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, report_on, steps_of

HEAD = "MLX/ErrorHandler.swift:343: Fatal error: "
TAIL = " at /Users/someone/DerivedData/mlx-c/mlx/c/fast.cpp:598"


def said(pair):
    return f"{HEAD}[broadcast_shapes] Shapes {pair} cannot be broadcast.{TAIL}"


def test_a_mask_built_for_the_new_tokens_alone():
    (step,) = steps_of(said("(24,24) and (1,4,24,536)"))
    assert step["phase"] == "chunk"
    assert step["attention"] == [{"q": 24, "k": 536, "mask": [24, 24], "fate": "rejected"}]
    (finding,) = report_on(said("(24,24) and (1,4,24,536)")).findings
    assert any("MD105" in cause for cause in finding.cause)


def test_a_decode_whose_mask_is_one_short():
    (step,) = steps_of(said("(1,300) and (1,32,1,301)"))
    assert (step["phase"], step["rows"]) == ("decode", [{"offset": 300, "tokens": 1}])


def test_a_mask_of_four_axes_that_is_one_too_long():
    text = said("(1,64,1,130) and (1,64,1,129)")
    (step,) = steps_of(text)
    assert "attention" not in step  # both sides have heads: which is the mask, the text does not say
    (finding,) = report_on(text).findings
    assert (finding.code, finding.evidence["axis"], finding.evidence["by"]) == ("MD901", "keys", -1)


def test_the_axis_order_of_a_cache():
    said = (
        "All the input array dimensions must match exactly except for the concatenation axis. However, the "
    )
    shapes = "provided shapes are (512,8,1,128), (1,8,512,128), and the concatenation axis is 2."
    text = f"{HEAD}[concatenate] {said}{shapes}{TAIL}"
    assert codes(text) == [("MD901", "error")]
    assert report_on(text).findings[0].evidence["axis"] in ("batch", "metadata")


def test_speculation_past_the_window_is_a_precondition():
    text = "MLXLMCommon/Gemma4.swift:88: Precondition failed: sliding KV length 515 exceeds slidingWindow 512"
    (step,) = steps_of(text)
    assert step["attention"] == [{"family": "sliding", "window": 512, "live": 515}]
    assert step["phase"] == "verify"
    assert ("MD905", "info") in codes(text)


def test_paths_stay_out():
    from mlxdiag.traces.encode import entry_line

    for entry in imported(said("(24,24) and (1,4,24,536)")).trace.entries:
        assert b"someone" not in entry_line(entry)


@pytest.mark.parametrize(
    "line",
    [
        "App/ContentView.swift:12: Fatal error: Unexpectedly found nil while unwrapping an Optional value",
        "MLX/ErrorHandler.swift:343: Fatal error: [metal] Command buffer execution failed",
        "let shape = [24, 24] // MLX/ErrorHandler.swift:343",
    ],
)
def test_other_fatal_errors_are_left_alone(line):
    with pytest.raises(UnreadableError):
        imported(line)
