from __future__ import annotations

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import ABORTED, crash
from mlxdiag.traces.importers.draft import Draft
from tests.traces.importers.reading import gemma4

MASK = "[broadcast_shapes] Shapes (298,128) and (1,64,298,298) cannot be broadcast."
MERGE = "[broadcast_shapes] Shapes (1,8,96,128) and (1,8,256,128) cannot be broadcast."


def entries(text, where=None, exit=None, model=None):
    draft = Draft(model)
    crash(draft, shapes.read(text), where, exit)
    return [entry for entry in draft.trace().entries if entry.phase != "model"]


def test_the_call_bears_the_error_and_the_end_its_code():
    call, end = entries(MASK, exit=ABORTED)
    assert (call.phase, call.attention[0].mask, call.error.text) == ("prefill", (298, 128), MASK)
    assert (end.phase, end.exit) == ("end", 134)


def test_a_program_that_went_on_has_no_end():
    assert [entry.phase for entry in entries(MERGE, "cache.merge")] == ["note"]


def test_a_mask_as_wide_as_the_window_is_of_the_layers_that_have_one():
    assert entries(MASK, model=gemma4(128))[0].attention[0].family == "sliding"
    assert entries(MASK, model=gemma4(512))[0].attention[0].family is None


def test_rows_are_told_only_where_the_scores_hold_one():
    two = "[broadcast_shapes] Shapes (19,19) and (2,4,19,531) cannot be broadcast."
    assert entries(two)[0].rows is None
    assert entries(two.replace("(2,4", "(1,4"))[0].rows[0].offset == 512
