"""mlxcel's log. The numbers are those of the public reports (160 against 671 and 2208; 9 against 10)."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, report_on, steps_of, trace_of

SPAN = "chunked_prefill_continue{seq_id=seq-6 offset=2048 total=2201}"
SAID = "trim_mask_to_keys: mask shorter than key length, discarding caller mask"
TIME = "2026-09-30T07:11:09.004512Z"
SECOND = f"{TIME}  WARN {SPAN}: mlxcel::models::gemma4: {SAID} mask_len=160 key_len=671 query_len=160"
FIRST = f"{TIME}  WARN {SPAN}: mlxcel::models::gemma4: {SAID} mask_len=160 key_len=671"
FULL = SECOND.replace("671", "2208")
VERIFY = (
    f"{TIME}  WARN speculative_slice_round{{seq_id=seq-1 slice=0}}: mlxcel::models::gemma4: {SAID} "
    "mask_len=9 key_len=10 query_len=2"
)

SLIDING = {
    "family": "sliding", "window": 512, "q": 160, "k": 671, "mask": [160, 160], "fate": "discarded",
    "fallback": "windowed",
}  # fmt: skip
ROW = {"seq": "seq-6", "offset": 2048, "tokens": 153, "padded": 160, "total": 2201}


def test_one_line_tells_the_piece_the_padding_the_window_and_the_stale_offset():
    (step,) = steps_of(SECOND)
    assert step["phase"] == "chunk"
    assert step["rows"] == [ROW]
    assert step["mask"] == {"shape": [160, 160], "offset": 0, "source": "scheduler", "builder": "padded"}
    assert step["attention"] == [SLIDING]


def test_what_was_worked_out_is_named():
    trace = trace_of(SECOND)
    (step,) = [entry for entry in trace.entries if entry.phase == "chunk"]
    assert "rows.padded (160 queries are 153 tokens padded to 32)" in step.note
    assert {"rows.padded", "mask.offset", "attention.family"} <= set(trace.header.source["inferred"])
    assert "rows.total" not in trace.header.source["inferred"]


def test_the_finding_is_the_short_mask_with_its_cause():
    (finding,) = report_on(SECOND).findings
    assert (finding.code, finding.severity) == ("MD101", "warning")
    assert any(cause.startswith("MD105") for cause in finding.cause)


def test_without_query_len_the_build_is_not_known_nor_its_fallback():
    (step,) = steps_of(FIRST)
    assert step["rows"] == [ROW]
    assert step["attention"] == [{key: value for key, value in SLIDING.items() if key != "fallback"}]
    assert codes(FIRST) == [("MD101", "error")]


def test_a_log_older_than_the_windowed_fallback_was_sliced():
    (step,) = steps_of(FIRST.replace("2026-09-30", "2026-05-02"))
    assert step["attention"][0]["fallback"] == "sliced"


@pytest.mark.parametrize("order", [(SECOND, FULL), (FULL, SECOND)])
def test_lines_of_one_piece_are_one_step_in_either_order(order):
    (step,) = steps_of("\n".join(order * 3))
    assert sorted((call["family"], call["k"], call["fallback"]) for call in step["attention"]) == [
        ("full", 2208, "causal"),
        ("sliding", 671, "windowed"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"mask_len=160 key_len=671 query_len=160 {SPAN}",
        "mask_len=160 key_len=671 query_len=160 seq_id=seq-6 offset=2048 total=2201",
        f"WARN {SPAN}: mlxcel::models::gemma4: {SAID} mask_len=160 key_len=671 query_len=160",
        SECOND.replace(" discarding caller", "\n    discarding caller").replace("gemma4: ", "gemma4:\n"),
        SECOND.replace("offset=2048", "\noffset=2048"),
        SECOND.replace(" query_len", "\nquery_len"),
        SECOND.replace("mlxcel::models::", "mlxcel::models::\n"),
        f"mask_len=160 key_len=671 query_len=160\n{SPAN}",
        SECOND.replace("\n", "\r\n") + "\r\n",
        "server-1  | " + SECOND,
        "> " + SECOND,
        "\x1b[2m" + SECOND.replace("WARN", "\x1b[33mWARN\x1b[0m").replace("=", "\x1b[0m\x1b[2m=\x1b[0m"),
        "[2m" + SECOND.replace("WARN", "[0m[33mWARN[0m").replace("=", "[0m[2m=[0m"),
        "`" + SECOND + "`",
    ],
)  # fmt: skip
def test_pasted_wrapped_and_coloured_lines_say_the_same(line):
    (step,) = steps_of(line)
    assert step["rows"] == [ROW]
    assert step["attention"] == [SLIDING]


def test_a_line_of_keys_that_all_are_held_is_of_the_full_layers_at_least():
    (step,) = steps_of(FULL)
    assert [(call["family"], call["fallback"]) for call in step["attention"]] == [("full", "causal")]
    assert codes(FULL) == [("MD101", "warning")]


def test_below_the_window_the_sliding_layers_return_the_same():
    early = SECOND.replace("2048", "256").replace("2201", "409").replace("671", "416")
    (step,) = steps_of(early, model=gemma4(512))
    assert [(call["family"], call["k"]) for call in step["attention"]] == [("full", 416), ("sliding", 416)]
    assert {severity for _, severity in codes(early, model=gemma4(512))} == {"warning"}


def test_two_models_in_one_log_have_two_windows():
    other = SECOND.replace("671", "1183").replace("seq-6", "seq-7")
    first, second = steps_of(SECOND + "\n" + other)
    assert [step["attention"][0]["window"] for step in (first, second)] == [512, 1024]
    assert set(codes(SECOND + "\n" + other)) == {("MD101", "warning")}


def test_keys_that_a_cap_left_are_no_window():
    capped = SECOND.replace("671", "1184")
    (step,) = steps_of(capped)
    assert "family" not in step["attention"][0]


def test_a_verify_is_harmless_where_its_span_proves_it():
    (step,) = steps_of(VERIFY)
    assert step["phase"] == "verify"
    (call,) = step["attention"]
    assert (call["cache"], call["window"], call["live"], call["mask"]) == ("buffered", 8, 8, [2, 9])
    assert codes(VERIFY) == [("MD101", "info")]


def test_a_verify_without_its_span_is_decided_by_the_window_and_by_nothing_less():
    bare = f"{SAID} mask_len=9 key_len=10 query_len=2"
    (step,) = steps_of(bare)
    assert step == {"phase": "note"}
    assert report_on(bare).summary.judged == 0
    assert codes(bare, model=gemma4(8)) == [("MD101", "info")]
    assert report_on(bare, model=gemma4(512)).summary.judged == 0


def test_a_bare_line_is_a_piece_where_only_a_full_ring_and_offset_0_fit_its_numbers():
    bare = f"{SAID} mask_len=160 key_len=671"
    assert report_on(bare).summary.judged == 0
    assert codes(bare, model=gemma4(512)) == [("MD101", "error")]


def test_rounds_of_a_verify_go_on_from_one_another():
    rounds = "\n".join(VERIFY.replace("key_len=10", f"key_len={10 + step}") for step in (0, 1, 3))
    steps = steps_of(rounds)
    assert [step["rows"][0]["offset"] for step in steps] == [8, 9, 11]
    assert {code for code, severity in codes(rounds) if severity == "error"} == set()


def test_the_innermost_span_is_the_lines_own():
    nested = VERIFY.replace("speculative_slice_round", "decode_step{batch_size=1}:speculative_slice_round")
    assert codes(nested) == [("MD101", "info")]


def test_an_error_of_a_piece_is_told_with_its_call():
    log = (
        f"ERROR {SPAN}: mlxcel::server: MLX threw at the decode/prefill eval FFI boundary; failing "
        "request(s): [broadcast_shapes] Shapes (160,160) and (1,8,160,671) cannot be broadcast. consecutive=1"
    )
    (step,) = steps_of(log)
    assert step["rows"] == [ROW]
    assert step["attention"] == [{"q": 160, "k": 671, "mask": [160, 160], "fate": "rejected"}]
    (finding,) = report_on(log).findings
    assert finding.code == "MD901"
    assert any(cause.startswith("MD105") for cause in finding.cause)


def test_a_name_that_a_client_chose_is_not_mistaken_for_the_servers_own():
    steps = steps_of(SECOND.replace("seq-6", "jane") + "\n" + SECOND.replace("seq-6", "seq-1"))
    assert len({step["rows"][0]["seq"] for step in steps}) == 2


def test_chunk_lines_are_the_schedule():
    log = "\n".join(
        f"{TIME} DEBUG mlxcel::server::scheduler: Chunked prefill: seq seq-6 chunk {a}..{b}/2201 tokens"
        for a, b in [(0, 512), (512, 1024), (1024, 1536), (1536, 2048), (2048, 2201)]
    )
    steps = steps_of(log + "\n" + SECOND)
    assert [(s["phase"], s["rows"][0]["offset"], s["rows"][0]["tokens"]) for s in steps] == [
        ("prefill", 0, 512),
        ("chunk", 512, 512),
        ("chunk", 1024, 512),
        ("chunk", 1536, 512),
        ("chunk", 2048, 153),
    ]
    assert steps[-1]["attention"] == [SLIDING]
    assert codes(log) == []


def test_an_adopted_prefix_moves_the_first_chunk():
    log = """DEBUG mlxcel::server: prompt-cache hit: adopted 64/1250 tokens seq_id=seq-2 matched=64 total=1250
DEBUG mlxcel::server: Chunked prefill: seq seq-2 chunk 0..512/1250 tokens
DEBUG mlxcel::server: Chunked prefill: seq seq-2 chunk 512..1024/1250 tokens"""
    adopt, first, second = steps_of(log)
    assert adopt["rows"] == [{"seq": "seq-2", "matched": 64, "restored": 64, "total": 1250}]
    assert (first["rows"][0]["offset"], first["rows"][0]["tokens"]) == (64, 448)
    assert second["rows"][0]["offset"] == 512
    assert codes(log) == []


def test_a_preempted_sequence_begins_again():
    chunk = "DEBUG mlxcel::server: Chunked prefill: seq seq-2 chunk 0..512/600 tokens\n"
    log = chunk + "INFO mlxcel::server: Preempting sequence seq-2 (priority=0, 3 tokens generated)\n" + chunk
    assert len(steps_of(log)) == 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "WARN mlxcel::server: lookahead teardown: dense trim removed fewer positions than requested "
            "seq_id=seq-4 requested=3 trimmed=0",
            "MD204",
        ),
        (
            f"ERROR {SPAN}: mlxcel::server: MLX threw at the decode/prefill eval FFI boundary; 1: "
            "[broadcast_shapes] Shapes (160,160) and (1,8,160,671) cannot be broadcast.",
            "MD901",
        ),
        (
            "WARN mlxcel::server: prompt-cache snapshot restore failed (ring idx 1400 exceeds max_size 1024)"
            "; falling back to cold prefill seq_id=seq-4",
            "MD905",
        ),
        ("INFO mlxcel::server: loop detection: ending generation early (repetition loop)", "MD608"),
    ],
)  # fmt: skip
def test_events_are_judged(line, code):
    assert code in [found for found, _ in codes(line)]


@pytest.mark.parametrize(
    "line",
    [
        f"{TIME}  INFO mlxcel::server: listening on 127.0.0.1:8080",
        f"{TIME} DEBUG mlxcel::server: scheduler tick active=3 queued=0 chunked_in_progress=1",
        f"{TIME}  WARN {SPAN}: mlxcel::models::gemma4: mask_len=671 key_len=671 query_len=160",
    ],
)
def test_harmless_lines_make_no_trace(line):
    with pytest.raises(UnreadableError, match="mlxcel"):
        imported(line)


def test_a_mask_that_was_dropped_for_one_query_is_no_finding():
    line = (
        f"WARN decode_step{{batch_size=1}}: mlxcel::models::gemma4: {SAID} mask_len=1 key_len=600 query_len=1"
    )
    (step,) = steps_of(line)
    assert step["phase"] == "decode"
    assert codes(line) == []
