from __future__ import annotations

import pytest

from mlxdiag.traces.importers.draft import Draft, filled, number
from mlxdiag.traces.types import Attention, Row
from tests.traces.importers.reading import gemma4


def test_only_a_servers_own_names_are_kept():
    draft = Draft()
    assert draft.seq("seq-6") == "seq-6"
    assert draft.seq("chatcmpl-1") == draft.seq("chatcmpl-1") == "req-1"
    assert draft.seq("chatcmpl-2") == "req-2"
    assert draft.seq(None) is None


def test_labels_say_which_tokens_are_equal_and_nothing_else():
    draft = Draft()
    assert [draft.label(token) for token in ("b", "a", "b", 7)] == [0, 1, 0, 2]


def test_a_keyed_step_is_found_again():
    draft = Draft()
    step = draft.step("chunk", "key")
    assert draft.step("chunk", "key") is step
    assert draft.step("chunk", "other") is not step
    assert draft.step("chunk") is not draft.step("chunk")


def test_the_window_is_the_configs_or_the_only_one_seen():
    assert Draft(gemma4(512)).window() == 512
    draft = Draft()
    assert draft.window() is None
    draft.windows[8] = 1
    assert draft.window() == 8
    draft.windows[16] = 1
    assert draft.window() is None


def test_a_model_entry_says_only_what_was_seen():
    draft = Draft()
    draft.step("decode").calls = [Attention(family="sliding", q=1, k=8), Attention(family="full", q=1, k=9)]
    draft.windows[8] = 1
    (model, _) = draft.trace().entries
    assert (model.layers["sliding"].window, model.layers["full"].attention) == (8, "full")
    assert model.architecture is None
    bare = Draft()
    bare.step("decode").rows = [Row(tokens=1)]
    assert [entry.phase for entry in bare.trace().entries] == ["decode"]


def test_inferred_fields_are_named_with_their_reason_once():
    draft = Draft()
    step = draft.step("chunk")
    step.infer("rows.padded", "first")
    step.infer("rows.padded", "second")
    trace = draft.trace()
    assert trace.entries[0].note == "inferred: rows.padded (first)"
    assert trace.header.source == {"inferred": ["rows.padded"]}


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ('"12"', 12), (12, 12), ("-1", None), ("1e3", None), ("9" * 20, None), (True, None)],
)
def test_lengths(text, value):
    assert number(text) == value


def test_a_row_is_filled_only_where_it_is_empty():
    assert filled(Row(tokens=4), tokens=5, total=6) == Row(tokens=4, total=6)
