"""MD2: an error, a warning or a note, and one finding for one fault."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

RING = "model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}\n"
AT_21 = "- {step: 1, phase: decode, rows: [{seq: a, offset: 20, tokens: 1}]}\n"


def found(text):
    return [(f.code, f.severity) for f in inspect_trace(parse(text)).findings if f.code[:3] == "MD2"]


def full(offset, q, **more):
    fields = {"family": "full", "offset": offset, "q": q, "k": offset + q, **more}
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # It goes on as if the trim had worked, or as if none had been asked for.
        ("- {step: 3, phase: chunk, rows: [{seq: a, offset: 17, tokens: 4}]}", [("MD204", "error")]),
        ("- {step: 3, phase: chunk, rows: [{seq: a, offset: 21, tokens: 4}]}", [("MD204", "error")]),
        # Fed again from the start: slow and right.
        ("- {step: 3, phase: prefill, rows: [{seq: a, offset: 0, tokens: 30}]}", [("MD204", "info")]),
        # Nothing follows.
        ("", [("MD204", "info")]),
    ],
)
def test_a_trim_that_did_nothing_is_an_error_only_if_the_sequence_goes_on(after, expected):
    trim = "- {step: 2, phase: trim, rows: [{seq: a, asked: 4, done: 0}]}\n"
    assert found("steps:\n" + AT_21 + trim + after) == expected


def test_a_trim_that_the_engine_declined_is_a_note():
    trim = "- {step: 2, phase: trim, rows: [{seq: a, asked: 4, done: 0}], refused: wrapped}\n"
    again = "- {step: 3, phase: prefill, rows: [{seq: a, offset: 0, tokens: 30}]}"
    assert found("steps:\n" + AT_21 + trim + again) == [("MD204", "info")]


def test_one_layers_count_reported_for_all_shows_where_the_other_layer_is():
    calls = f"{full(17, 4)}, {full(21, 4, family='sliding')}"
    text = (
        "steps:\n" + AT_21 + "- {step: 2, phase: trim, rows: [{seq: a, asked: 4, done: 4}]}\n"
        f"- {{step: 3, phase: chunk, rows: [{{seq: a, tokens: 4}}], attention: [{calls}]}}"
    )
    (finding,) = inspect_trace(parse(text)).findings
    assert finding.code == "MD202"
    assert finding.cause[0].startswith("MD204 ")


def test_padding_left_in_the_cache_and_the_shifted_position_are_one_finding():
    """lablup/mlxcel#1755: 2208 for 2201."""
    text = (
        "steps:\n"
        "- {step: 5, phase: chunk, rows: [{seq: a, offset: 2048, tokens: 153, padded: 160, total: 2201}]}\n"
        "- {step: 6, phase: decode, rows: [{seq: a, offset: 2208, tokens: 1}]}\n"
        "- {step: 7, phase: decode, rows: [{seq: a, offset: 2209, tokens: 1}]}\n"
    )
    (finding,) = inspect_trace(parse(text)).findings
    assert (finding.code, finding.severity, finding.step) == ("MD203", "error", 6)
    assert finding.cause[0].startswith("MD206 ")
    assert "2208" in finding.message
    assert "2201" in finding.message


@pytest.mark.parametrize(("offset", "expected"), [(2201, []), (2200, [("MD203", "error")])])
def test_the_true_position_is_healthy_and_one_less_is_not_padding(offset, expected):
    text = (
        "steps:\n- {phase: chunk, rows: [{seq: a, offset: 2048, tokens: 153, padded: 160, total: 2201}]}\n"
        f"- {{phase: decode, rows: [{{seq: a, offset: {offset}, tokens: 1}}]}}\n"
    )
    assert found(text) == expected


BLOCK = "- {step: 1, phase: verify, rows: [{seq: a, offset: 7, tokens: 3}]REFUSED}\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (BLOCK.replace("REFUSED", ""), []),
        (BLOCK.replace("REFUSED", ", refused: past the window"), [("MD209", "info")]),
        (
            BLOCK.replace("REFUSED", "")
            + "- {step: 2, phase: rollback, rows: [{seq: a, asked: 2, done: 0}]}\n",
            [("MD209", "error")],
        ),
        # A block that ends at the window does not cross it: an unhonoured trim like any other.
        (
            BLOCK.replace("REFUSED", "").replace("offset: 7", "offset: 5")
            + "- {step: 2, phase: rollback, rows: [{seq: a, asked: 2, done: 0}]}\n"
            + "- {step: 3, phase: verify, rows: [{seq: a, offset: 8, tokens: 2}]}\n",
            [("MD204", "error")],
        ),
        # A ring that has wrapped and says that it gave the tokens back.
        (
            BLOCK.replace("REFUSED", "")
            + "- {step: 2, phase: rollback, rows: [{seq: a, asked: 2, done: 2}]}\n"
            + "- {step: 3, phase: verify, rows: [{seq: a, offset: 8, tokens: 3}]}\n",
            [("MD204", "error")],
        ),
        # Up to the window, and no further, a ring can.
        (
            BLOCK.replace("REFUSED", "").replace("offset: 7", "offset: 5")
            + "- {step: 2, phase: rollback, rows: [{seq: a, asked: 2, done: 2}]}\n"
            + "- {step: 3, phase: verify, rows: [{seq: a, offset: 6, tokens: 2}]}\n",
            [],
        ),
    ],
)
def test_speculation_at_the_window(steps, expected):
    assert found(RING + "steps:\n" + steps) == expected


def test_the_cache_that_was_seen_outweighs_the_one_that_the_config_asks_for():
    """A server turns its rings into buffered ones for speculation; the config knows nothing of it."""
    seen = ", attention: [{family: sliding, cache: buffered, offset: 7, q: 3, k: 10}]"
    verify = f"- {{step: 1, phase: verify, rows: [{{seq: a, offset: 7, tokens: 3}}]{seen}}}\n"
    rest = (
        "- {step: 2, phase: rollback, rows: [{seq: a, asked: 2, done: 2}]}\n"
        "- {step: 3, phase: verify, rows: [{seq: a, offset: 8, tokens: 3}]}\n"
    )
    assert found(RING + "steps:\n" + verify + rest) == []
    assert found(RING + "steps:\n" + verify.replace(seen, "") + rest) == [("MD204", "error")]


@pytest.mark.parametrize(
    ("start", "expected"), [(37, []), (38, [("MD207", "warning")]), (39, [("MD207", "error")])]
)
def test_one_key_too_few_may_be_a_convention_two_are_a_loss(start, expected):
    model = "model: {layers: {sliding: {attention: sliding, cache: dense, window: 64}}}\n"
    call = f"{{family: sliding, offset: 100, live_start: {start}, q: 1, k: {101 - start}}}"
    assert found(f"{model}steps: [{{attention: [{call}]}}]") == expected


def test_a_restored_cache_of_another_class_is_an_error_and_a_declined_one_a_note():
    saved = "- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: quantized}]}\n"
    loaded = "- {phase: load, rows: [{seq: b}], attention: [{family: full, cache: dense}]REFUSED}"
    assert found("steps:\n" + saved + loaded.replace("REFUSED", "")) == [("MD208", "error")]
    refused = loaded.replace("REFUSED", ", refused: another class")
    assert found("steps:\n" + saved + refused) == [("MD208", "info")]


def test_after_a_quantize_event_another_class_is_no_surprise():
    before = "- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: dense}]}\n"
    after = "- {phase: save, rows: [{seq: a}], attention: [{family: full, cache: quantized}]}\n"
    assert found("steps:\n" + before + "- {phase: quantize, rows: [{seq: a}]}\n" + after) == []
    assert found("steps:\n" + before + after) == [("MD208", "error")]


@pytest.mark.parametrize(("bound", "expected"), [(63, "error"), (64, None), (128, "info")])
def test_a_ring_smaller_than_the_window_loses_keys_and_a_larger_one_is_a_note(bound, expected):
    model = "model: {layers: {sliding: {attention: sliding, window: 64}}}\n"
    call = f"{{family: sliding, cache: rotating, window: {bound}, offset: 10, q: 1, k: 11}}"
    assert found(f"{model}steps: [{{attention: [{call}]}}]") == ([("MD212", expected)] if expected else [])


def test_many_rows_out_of_step_at_once_are_one_finding():
    rows = ", ".join(f"{{seq: s{i}, tokens: 1}}" for i in range(9))
    calls = ", ".join(
        f"{{family: {family}, offset: {[at] * 9}, cursor: {at}, q: 1, k: {at + 1}}}"
        for family, at in (("full", 4), ("other", 5))
    )
    assert found(f"steps: [{{rows: [{rows}], attention: [{calls}]}}]") == [("MD202", "error")]


def test_rows_of_a_packed_paged_batch_are_judged_one_by_one():
    rows = "[{seq: a, offset: 30, tokens: 1}, {seq: b, offset: 10, tokens: 4}]"
    good = "{family: full, cache: paged, offset: [30, 10], q: 5, k: [31, 14]}"
    assert found(f"steps: [{{phase: chunk, rows: {rows}, attention: [{good}]}}]") == []
    bad = good.replace("14", "13")
    assert found(f"steps: [{{phase: chunk, rows: {rows}, attention: [{bad}]}}]") == [("MD201", "error")]


def test_under_a_key_cap_that_may_or_may_not_have_acted_both_counts_are_legal():
    cap = "scheduler: {max_kv: 1024}\nmodel: {layers: {full: {attention: full}}}\n"
    for k, expected in ((1536, []), (2048, []), (1535, [("MD201", "error")]), (2049, [("MD201", "error")])):
        call = f"{{family: full, offset: 1536, q: 512, k: {k}}}"
        assert found(f"{cap}steps: [{{attention: [{call}]}}]") == expected
