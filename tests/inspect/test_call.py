"""What a call is taken to be where the trace leaves things out."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.call import build
from mlxdiag.inspect.run import Run
from mlxdiag.traces.reader import parse


def calls(text):
    trace = parse(text)
    run = Run(trace.header)
    built = []
    for entry in trace.entries:
        run.enter(entry)
        built += [build(entry, index, run) for index in range(len(entry.attention or ()))]
    return built


def test_a_bare_family_name_gives_kind_and_cache():
    sliding, full, chunked = calls(
        """
        steps:
        - {rows: [{offset: 4, tokens: 2}], attention: [{family: sliding}, {family: full}, {family: chunked}]}
        """
    )
    assert [(c.kind, c.cache) for c in (sliding, full, chunked)] == [
        ("sliding", "rotating"),
        ("full", "dense"),
        ("chunked", "chunked"),
    ]
    assert (sliding.q, sliding.offsets, sliding.cursor, sliding.live) == (2, [4], 4, 4)


def test_the_window_comes_from_the_config_and_the_bound_from_the_cache():
    (call,) = calls(
        """
        model: {layers: {sliding: {attention: sliding, window: 512}}}
        steps:
        - {rows: [{offset: 4, tokens: 2}], attention: [{family: sliding, cache: rotating, window: 256}]}
        """
    )
    assert (call.window, call.bound, call.kept) == (512, 256, 4)


def test_a_wrapper_config_keeps_the_window_under_text_config():
    (call,) = calls(
        """
        model: {config: {text_config: {sliding_window: 64}}}
        steps:
        - {rows: [{offset: 100, tokens: 2}], attention: [{family: sliding}]}
        """
    )
    assert (call.window, call.kept) == (64, 63)


def test_a_full_layer_under_a_ring_has_a_bound_and_no_window():
    (call,) = calls(
        """
        scheduler: {max_kv: 1024}
        model: {layers: {full: {attention: full}}}
        steps:
        - {rows: [{offset: 4, tokens: 2}], attention: [{family: full, cache: rotating, window: 1024,
           keep: 4}]}
        """
    )
    assert (call.kind, call.window, call.bound, call.keep) == ("full", None, 1024, 4)


def test_ragged_rows_share_a_cursor_only_behind_known_padding():
    known, unknown = calls(
        """
        steps:
        - {rows: [{seq: a, left_padding: 0, tokens: 1}, {seq: b, left_padding: 5, tokens: 1}],
           attention: [{family: full, offset: [20, 15]}]}
        - {rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1}], attention: [{family: full, offset: [20, 15]}]}
        """
    )
    assert (known.cache, known.cursor) == ("batch", 20)
    assert (unknown.cursor, unknown.live) == (None, None)


def test_one_integer_on_a_batch_cache_is_its_cursor_and_no_rows_own_position():
    (call,) = calls(
        """
        steps:
        - {rows: [{seq: a, offset: 20, tokens: 1}, {seq: b, offset: 15, tokens: 1}],
           attention: [{family: full, cache: batch, offset: 20}]}
        """
    )
    assert (call.cursor, call.offsets) == (20, [20, 15])


def test_rows_with_lists_of_keys_are_packed_pages():
    (call,) = calls(
        """
        steps:
        - {rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 9, tokens: 1}],
           attention: [{family: full, offset: [4, 9], k: [5, 10]}]}
        """
    )
    assert (call.cache, call.k, call.ks, call.cursor) == ("paged", None, [5, 10], None)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("[4, 8]", (8, 4, None, False)),
        ("[1, 1, 4, 8]", (8, 4, 1, False)),
        ("[2, 16, 4, 8]", (8, None, None, True)),
        ("[8]", (8, None, None, False)),
        ("[3, 4, 8]", (8, 4, 3, False)),
    ],
)
def test_the_axes_of_a_mask(mask, expected):
    (call,) = calls(
        f"steps:\n- {{rows: [{{offset: 4, tokens: 4}}], attention: [{{family: full, mask: {mask}}}]}}"
    )
    assert (call.m, call.mask_q, call.mask_batch, call.bias) == expected


def test_no_mask_no_observation_and_causal_stay_three_things():
    kinds = [
        call.mask_kind
        for call in calls(
            """
            steps:
            - {rows: [{offset: 4, tokens: 4}], attention: [{family: full, mask: null}, {family: full},
               {family: full, mask: causal}]}
            """
        )
    ]
    assert kinds == ["none", None, "causal"]


def test_the_schedulers_mask_reaches_the_layers_it_is_meant_for():
    sliding, full = calls(
        """
        steps:
        - {rows: [{offset: 4, tokens: 4}], mask: {shape: [4, 4], family: sliding},
           attention: [{family: sliding},
           {family: full}]}
        """
    )
    assert (sliding.m, sliding.handed_in_use) == (4, True)
    assert (full.m, full.handed_in_use) == (None, False)


@pytest.mark.parametrize(
    ("misfit", "fate", "fallback"),
    [
        ("strict", "rejected", None),
        ("raise", "rejected", None),
        ("discard:windowed", "discarded", "windowed"),
        ("rebuild", "rebuilt", None),
        ("crop:old", None, None),
    ],
)
def test_a_declared_policy_speaks_for_a_short_mask_whose_fate_was_not_recorded(misfit, fate, fallback):
    fits, short = calls(
        f"""
        scheduler: {{misfit: "{misfit}"}}
        steps:
        - {{rows: [{{offset: 4, tokens: 4}}], attention: [{{family: full, k: 8, mask: [4, 8]}},
           {{family: full, k: 8, mask: [4, 4]}}]}}
        """
    )
    assert fits.fate is None
    assert (short.fate, short.fallback) == (fate, fallback)


def test_a_cap_that_must_have_acted_is_assumed_but_not_known():
    capped, early = calls(
        """
        scheduler: {max_kv: 1024}
        steps:
        - {rows: [{offset: 1536, tokens: 4}], attention: [{family: full}]}
        - {rows: [{offset: 512, tokens: 4}], attention: [{family: full}]}
        """
    )
    assert (capped.live, capped.live_start, capped.live_known) == (1024, 512, False)
    assert (early.live, early.live_start, early.live_known) == (512, 0, True)


def test_a_buffer_without_spare_slots_explains_no_mask():
    from mlxdiag.inspect.inspector import inspect_trace

    report = inspect_trace(
        parse(
            """\
schema: mlxdiag.trace/1
model: {layers: {sliding: {attention: sliding, window: 8}}}
steps:
- {rows: [{offset: 12, tokens: 4}], attention: [{family: sliding, buffer: 12, k: 11, mask: [4, 16]}]}
"""
        )
    )
    (finding,) = report.findings
    assert "physical buffer" not in str(finding)


def test_a_mask_is_the_handed_one_whatever_axes_of_length_one_stand_before_it():
    same, batched = calls(
        """
        steps:
        - {rows: [{offset: 12, tokens: 5}], mask: {shape: [5, 17], builder: causal},
           attention: [{family: full, k: 17, mask: [1, 1, 5, 17]},
            {family: sliding, k: 17, mask: [2, 1, 5, 17]}]}
        """
    )
    assert (same.handed_in_use, same.builder) == (True, "causal")
    assert (batched.handed_in_use, batched.builder) == (False, None)
