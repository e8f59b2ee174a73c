"""mlxcel's per-layer lines: the one place where the log tells returned keys."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, steps_of


def call(q, k, window, route="array_mask", phase="prefill", dispatch=1):
    return (
        f"[mlxcel][na-attention] dispatch={dispatch} phase={phase} route={route} fast_path_eligible=false "
        f"fast_path_reason=mask nax_eligible=true nax_reason=ok q=[1, 8, {q}, 256] k=[1, 4, {k}, 256] "
        f"scale=0.0625 softcap=0 window_size={window}\n"
    )


def test_a_forward_is_one_step_with_a_call_for_each_family():
    (step,) = steps_of(call(160, 671, 512) * 5 + call(160, 2208, -1, route="native_causal"))
    assert step["phase"] == "chunk"
    assert step["rows"] == [{"tokens": 160, "offset": 2048}]
    assert step["attention"] == [
        {"family": "sliding", "window": 512, "q": 160, "k": 671},
        {"family": "full", "q": 160, "k": 2208, "mask": "causal"},
    ]


def test_the_keys_are_judged_against_what_the_caches_must_return():
    assert codes(call(160, 671, 512) + call(160, 2208, 0)) == []
    assert ("MD201", "error") in codes(call(512, 512, 512) + call(512, 1024, 0))


def test_another_key_count_of_the_same_layers_is_the_next_forward():
    decodes = [(512, 600), (512, 601), (512, 602)]
    log = "".join(call(1, k, 0, "unmasked", "decode") for pair in decodes for k in pair)
    steps = steps_of(log, model=gemma4(512))
    assert [step["rows"][0].get("offset") for step in steps] == [599, 600, 601]
    assert {step["phase"] for step in steps} == {"decode"}
    assert codes(log, model=gemma4(512)) == []


def test_chunks_of_a_prompt_are_steps_of_their_own():
    log = "".join(
        call(512, sliding, 512) * 5 + call(512, full, 0)
        for sliding, full in ((512, 512), (1023, 1024), (1023, 1536))
    )
    steps = steps_of(log)
    assert [(step["phase"], step["rows"][0].get("offset")) for step in steps] == [
        ("prefill", 0),
        ("chunk", 512),
        ("chunk", 1024),
    ]
    assert codes(log) == []


def test_a_window_of_0_tells_nothing_where_no_call_prints_one():
    (step,) = steps_of(call(160, 671, 0) + call(160, 2208, 0))
    assert ["family" in one for one in step["attention"]] == [False, False]
    assert "offset" not in step["rows"][0]
    assert codes(call(160, 671, 0) + call(160, 2208, 0)) == []


def test_an_unmasked_call_has_no_mask_and_an_array_one_an_unknown_mask():
    (decode,) = steps_of(call(1, 9, 0, "unmasked", "decode"))
    assert decode["attention"][0]["mask"] is None
    (prefill,) = steps_of(call(8, 8, 0, "padded_prefill"))
    assert "mask" not in prefill["attention"][0]


def test_a_causal_route_past_the_window_does_not_enforce_it():
    assert ("MD108", "error") in codes(call(160, 671, 512, route="native_causal"))


def test_layers_without_offsets_are_judged_by_what_they_have():
    (step,) = steps_of(call(32, 32, 512))
    assert step["phase"] == "prefill"
    assert codes(call(32, 32, 512)) == []


@pytest.mark.parametrize(
    "line",
    [
        "[LAYER 03] type=sliding_attention seq_len=160 ms=1.25",
        "[LAYER_BUILD 03] type=full_attention seq_len=160 ms=0.25",
        "[SUBOP] layer=03 name=rope ms=0.02",
        "[LOGITS] prefill dtype=bfloat16 shape=[1, 160, 262144]",
        "[mlxcel][na-attention] disabled on this device",
        call(160, 671, 512).replace("q=[1, 8, 160, 256]", "q=[160, 256]"),
    ],
)
def test_other_lines_of_a_profile_hold_nothing_for_a_trace(line):
    with pytest.raises(UnreadableError):
        imported(line)
