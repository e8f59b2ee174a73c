from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, steps_of, trace_of


def fetch(said, rest="", logger="rapid_mlx.memory_cache"):
    return f"INFO:{logger}:[cache_fetch] {said}: shared=4000 entry_len=4016 requested_len=4200{rest}"


def schedule(prompt, fed, logger="rapid_mlx.scheduler"):
    return (
        f"INFO:{logger}:[schedule] request=ab12cd34-000 uid=2 prompt_tokens={prompt} tokens_to_prefill={fed} "
        "max_tokens=512 running=1 waiting=0"
    )


def test_a_prefix_that_cannot_be_trimmed_is_refused_and_that_is_right():
    text = fetch("LCP unavailable", " non_trimmable=True") + "\n" + schedule(4200, 4200)
    adopt, prefill = steps_of(text)
    assert adopt["rows"] == [{"matched": 4000, "entry": 4016, "total": 4200}]
    assert adopt["refused"] == "the stored prefix cannot be trimmed"
    assert prefill["rows"] == [{"seq": "req-1", "offset": 0, "tokens": 4200, "total": 4200}]
    assert codes(text) == [("MD905", "info")]


def test_a_hit_is_no_refusal():
    (step,) = steps_of(fetch("LCP hit", " non_trimmable=False"))
    assert "refused" not in step
    assert codes(fetch("LCP hit")) == []


@pytest.mark.parametrize(
    "line",
    [
        "INFO:vllm_mlx.scheduler:[cache_fetch] HIT prompt_tokens=15999 cached=15903 remaining=96",
        "INFO:rapid_mlx.scheduler:[cache_fetch] request=ab12cd34-000 HIT cached=15903 remaining=96",
    ],
)
def test_a_hit_tells_what_is_left(line):
    (step,) = steps_of(line)
    row = {key: value for key, value in step["rows"][0].items() if key != "seq"}
    assert row == {"matched": 15903, "restored": 15903, "total": 15999}


def test_a_longer_entry_that_cannot_be_cut_is_refused():
    said = "supersequence match skipped: non-trimmable cache layers (hybrid model)"
    assert codes(f"DEBUG:rapid_mlx.memory_cache:[cache_fetch] {said}") == [("MD905", "info")]


def test_what_is_fed_after_a_prefix():
    (step,) = steps_of(schedule(4200, 200))
    assert (step["phase"], step["rows"][0]["offset"], step["rows"][0]["tokens"]) == ("chunk", 4000, 200)


def test_the_older_name_of_the_program():
    trace = trace_of(schedule(40, 40, "vllm_mlx.scheduler"))
    assert trace.header.source["program"] == "vllm-mlx"
    assert trace_of(schedule(40, 40)).header.source["program"] == "rapid-mlx"


def test_one_piece_is_named_as_a_guess():
    trace = trace_of(schedule(4200, 4200))
    assert "rows.tokens" in trace.header.source["inferred"]


def test_impossible_counts_are_not_believed():
    with pytest.raises(UnreadableError):
        imported(schedule(40, 90))


@pytest.mark.parametrize(
    "line",
    [
        "INFO:rapid_mlx.server:[http] POST /v1/chat/completions 200",
        "INFO:rapid_mlx.memory_cache:[cache_fetch] MISS tokens=4200",
        "INFO:myapp.scheduler:[schedule] prompt_tokens=40 tokens_to_prefill=40",
    ],
)
def test_other_lines_make_no_trace(line):
    with pytest.raises(UnreadableError):
        imported(line)
