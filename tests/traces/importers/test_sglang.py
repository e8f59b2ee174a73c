from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, report_on, steps_of, trace_of


def prefill(sequences, new, cached, rank="TP0"):
    return (
        f"[2026-09-14 08:00:01 {rank}] Prefill batch. #new-seq: {sequences}, #new-token: {new}, "
        f"#cached-token: {cached}, token usage: 0.31, #running-req: 3, #queue-req: 0"
    )


DECODE = (
    "[2026-09-14 08:00:02 TP0] Decode batch. #running-req: 5, #token: 9120, token usage: 0.44, "
    "gen throughput (token/s): 88.1, #queue-req: 0"
)
NAN = "[2026-09-14 08:00:02 TP0] Detected errors during sampling! NaN in the logits."


def test_a_batch_of_one_has_an_offset():
    (step,) = steps_of(prefill(1, 4096, 512))
    assert (step["phase"], step["rows"]) == ("chunk", [{"tokens": 4096, "offset": 512}])


def test_a_fresh_batch_of_one_is_a_prefill():
    (step,) = steps_of(prefill(1, 300, 0))
    assert (step["phase"], step["rows"]) == ("prefill", [{"tokens": 300, "offset": 0}])


def test_the_rows_of_a_larger_batch_are_not_guessed():
    (entry,) = trace_of(prefill(2, 4096, 512)).entries
    assert entry.rows is None
    assert "2 sequences, 4096 tokens" in (entry.note or "")


def test_ranks_and_no_ranks():
    assert (
        len(steps_of(prefill(1, 8, 0, "DP1 TP3") + "\n" + prefill(1, 8, 0, "").replace("01 ]", "01]"))) == 2
    )


def test_nan_in_the_logits_is_found():
    (finding,) = report_on(prefill(1, 300, 0) + "\n" + NAN).findings
    assert any(cause.startswith("MD401") for cause in finding.cause)


def test_healthy_batches_have_no_finding():
    assert codes("\n".join([prefill(1, 300, 0), DECODE, prefill(2, 600, 10)])) == []


@pytest.mark.parametrize(
    "line",
    [
        DECODE,
        "[2026-09-14 08:00:02 TP0] Capture cuda graph end. Time elapsed: 9.1 s",
        "[2026-09-14 08:00:02] INFO:     127.0.0.1:5511 - \"POST /generate HTTP/1.1\" 200 OK",
        prefill(1, 0, 512),
    ],
)  # fmt: skip
def test_lines_without_a_prefill_make_no_trace(line):
    with pytest.raises(UnreadableError):
        imported(line)
