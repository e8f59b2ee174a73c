"""Aborts through a bridge. Shapes of the public reports: (298,128) against (1,64,298,298)."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, report_on, steps_of, trace_of

SHAPES = "[broadcast_shapes] Shapes (298,128) and (1,64,298,298) cannot be broadcast."
LIBCPP = "libc++abi: terminating due to uncaught exception of type std::invalid_argument:"
GLIBC = "terminate called after throwing an instance of 'std::invalid_argument'\n  what():  "


@pytest.mark.parametrize(
    "text",
    [
        f"{LIBCPP} {SHAPES}",
        f"{LIBCPP}\n{SHAPES}",
        f"{LIBCPP}\n{SHAPES}\nAbort trap: 6",
        GLIBC + SHAPES,
        f"2026-09-01 libc++abi: terminating due to uncaught exception: {SHAPES} extra words",
    ],
)
def test_the_call_the_error_and_the_end_are_told(text):
    call, end = steps_of(text)
    assert call["phase"] == "prefill"
    assert call["rows"] == [{"offset": 0, "tokens": 298}]
    assert call["attention"] == [{"q": 298, "k": 298, "mask": [298, 128], "fate": "rejected"}]
    assert call["error"] == {"text": SHAPES, "shapes": [[298, 128], [1, 64, 298, 298]]}
    assert end == {"phase": "end", "exit": 134}
    assert codes(text) == [("MD901", "error")]


def test_a_bare_message_tells_no_end():
    (step,) = steps_of(SHAPES)
    assert step["error"]["text"] == SHAPES


def test_the_window_of_the_config_names_the_layers_and_so_the_cause():
    (finding,) = report_on(f"{LIBCPP} {SHAPES}", model=gemma4(128)).findings
    assert any("MD107" in cause and "170 rows see no key" in cause for cause in finding.cause)


def test_a_kernel_that_threw_was_a_strict_one():
    assert trace_of(f"{LIBCPP} {SHAPES}").header.scheduler.misfit == "strict"


def test_a_row_of_a_cache_is_no_attention_call():
    text = f"{LIBCPP} [broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast."
    fault, end = steps_of(text)
    assert "attention" not in fault
    assert end == {"phase": "end", "exit": 134}
    (finding,) = report_on(text).findings
    assert finding.evidence["axis"] == "length"


def test_a_mask_without_heads_is_the_mask_whichever_side_it_is_on():
    for pair in ("(1,1,19,19) and (1,4,19,531)", "(1,4,19,531) and (1,1,19,19)"):
        step = steps_of(f"[broadcast_shapes] Shapes {pair} cannot be broadcast.")[0]
        assert step["attention"][0]["mask"] == [1, 1, 19, 19]
        assert (step["attention"][0]["q"], step["attention"][0]["k"]) == (19, 531)


def test_a_fault_of_the_query_axis_is_not_taken_for_one_of_the_keys():
    text = "[broadcast_shapes] Shapes (7,64) and (1,8,5,64) cannot be broadcast."
    (step,) = steps_of(text)
    assert "attention" not in step
    (finding,) = report_on(text).findings
    assert finding.evidence["axis"] == "queries"


@pytest.mark.parametrize(
    "text",
    [
        "libc++abi: terminating due to uncaught exception of type std::runtime_error: [malloc] no memory",
        "The PR fixes Shapes (1,2) and (3,4) in the docs.",
        "terminate called without an active exception",
    ],
)
def test_other_aborts_are_no_shape_crash(text):
    with pytest.raises(UnreadableError):
        imported(text)
