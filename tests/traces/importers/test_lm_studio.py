from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.encode import entry_line
from tests.traces.importers.reading import codes, imported, report_on, steps_of

HEAD = "[2026-09-14 08:00:00.123] [error] "
MERGE = "[broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast."
CACHE = """At:
  /Users/jane/.lmstudio/extensions/backends/mlx_lm/models/cache.py(1188): merge
  /Users/jane/.lmstudio/extensions/backends/mlx_engine/generate.py(402): create_generator
  <frozen runpy>(88): _run_code"""


def test_the_innermost_frame_is_the_first():
    text = f"{HEAD}Error in predicting next token: ValueError: {MERGE}\n{CACHE}"
    (step,) = steps_of(text)
    assert step["error"]["where"] == "mlx_lm.models.cache.merge"
    assert report_on(text).findings[0].evidence["axis"] == "length"


def test_an_error_on_a_line_of_its_own():
    (step,) = steps_of(f"{HEAD}Exception while generating\nValueError: {MERGE}\n\n{CACHE}\n")
    assert step["error"]["text"] == MERGE


def test_an_error_without_frames_is_written_at_the_next_head_or_the_end():
    one = f"{HEAD}ValueError: [reshape] Cannot infer the shape of an empty array"
    assert len(steps_of(one)) == 1
    assert len(steps_of(f"{one}\n{one}\n2026-09-14 08:00:09 [DEBUG] idle")) == 2


def test_attention_frames_make_the_call():
    text = (
        f"{HEAD}ValueError: [broadcast_shapes] Shapes (1,300) and (1,32,1,301) cannot be broadcast.\n"
        + CACHE.replace("cache.py(1188): merge", "base.py(118): scaled_dot_product_attention")
    )
    (step,) = steps_of(text)
    assert step["attention"] == [{"q": 1, "k": 301, "mask": [1, 300], "fate": "rejected"}]


def test_bodies_and_paths_stay_out():
    text = (
        f"2026-09-14 08:00:00 [DEBUG]\nReceived request: my secret prompt\n{HEAD}ValueError: {MERGE}\n{CACHE}"
    )
    written = b"".join(entry_line(entry) for entry in imported(text).trace.entries)
    assert b"secret" not in written
    assert b"jane" not in written


@pytest.mark.parametrize(
    "head",
    [
        "[2026-09-14 08:00:00][ERROR][model] ",
        "2026-09-14 08:00:00 [ERROR] ",
        "[2026-09-14 08:00:00.9] [error] ",
    ],
)
def test_forms_of_a_head(head):
    text = f"{head}ValueError: {MERGE}\n{CACHE}"
    assert steps_of(text)[0]["error"]["where"] == "mlx_lm.models.cache.merge"


def test_a_quantised_ring_is_an_unsupported_combination():
    assert codes(f"{HEAD}NotImplementedError: RotatingKVCache Quantization NYI") == [("MD904", "error")]


@pytest.mark.parametrize(
    "text",
    [
        "[2026-09-14 08:00:00.123] [info] Model loaded",
        "2026-09-14 08:00:00 [DEBUG]\nsome body\nAt:\n  nowhere(1): f",
        f"{HEAD}Model unloaded.",
    ],
)
def test_other_entries_make_no_trace(text):
    with pytest.raises(UnreadableError):
        imported(text)
