"""The worked numbers of the public reports: right code, right severity, right cause, and nothing else."""

from __future__ import annotations

from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

GEMMA4 = (
    "model: {layers: {sliding: {attention: sliding, cache: rotating, window: 512}, full: {attention: full}}}"
)


def judge(text):
    return inspect_trace(parse(text)).findings


def by_family(findings):
    return {finding.family: finding for finding in findings}


def causes(finding):
    return [cause[:5] for cause in finding.cause]


def stale(tail, mask="shape: [160, 160], offset: 0, source: scheduler"):
    """lablup/mlxcel#885: chunk of 153 padded to 160 at offset 2048, mask built at 0 for an empty pool."""
    return f"""
{GEMMA4}
steps:
- {{step: 5, phase: chunk, rows: [{{seq: seq-6, offset: 2048, tokens: 153, padded: 160, total: 2201}}],
   mask: {{{mask}}}, attention: [
   {{family: sliding, offset: 2048, q: 160, k: 671, mask: [160, 160]{tail[0]}}},
   {{family: full, offset: 2048, q: 160, k: 2208, mask: [160, 160]{tail[1]}}}]}}
"""


def test_160_against_671_and_2208_dropped_for_the_right_fallbacks_is_a_warning_with_its_cause():
    fallbacks = (", fate: discarded, fallback: windowed", ", fate: discarded, fallback: causal")
    (headline,) = judge(stale(fallbacks))
    assert (headline.code, headline.severity, headline.family) == ("MD101", "warning", "sliding, full")
    assert causes(headline) == ["MD105", "MD104", "MD104"]
    assert "offset 0" in headline.cause[0]
    for family, keys in (("sliding", 671), ("full", 2208)):
        assert str(keys) in headline.message
        assert headline.evidence[family]["returned_keys"] == keys


def test_160_against_671_is_an_error_when_a_strict_consumer_rejects_it():
    found = by_family(judge(stale((", fate: rejected", ", fate: rejected"))))
    assert {finding.severity for finding in found.values()} == {"error"}
    assert all(causes(finding) == ["MD105"] for finding in found.values())


def test_160_against_671_is_an_error_when_nothing_says_what_happened():
    found = by_family(judge(stale(("", ""))))
    assert {(finding.code, finding.severity) for finding in found.values()} == {("MD101", "error")}


def test_plain_causal_instead_loses_the_window_on_the_sliding_layers_only():
    fallbacks = (", fate: discarded, fallback: causal", ", fate: discarded, fallback: causal")
    found = by_family(judge(stale(fallbacks)))
    assert found["sliding"].severity == "error"
    assert "MD108" in causes(found["sliding"])
    assert found["full"].severity == "warning"
    assert "MD108" not in causes(found["full"])


def test_the_declared_misfit_stands_in_for_a_fate_that_was_not_recorded():
    text = "scheduler: {misfit: 'discard:windowed'}" + stale(("", ""))
    assert {finding.severity for finding in judge(text)} == {"warning"}


def test_the_merged_fix_rebuilds_both_masks_and_only_a_note_of_the_stale_offset_is_left():
    text = stale((", fate: rebuilt", ", fate: rebuilt"))
    text = text.replace("k: 671, mask: [160, 160]", "k: 671, mask: [160, 671]")
    text = text.replace("k: 2208, mask: [160, 160]", "k: 2208, mask: [160, 2208]")
    assert {(finding.code, finding.severity) for finding in judge(text)} == {("MD105", "info")}


def test_9_against_10_on_a_buffered_ring_is_worth_knowing_and_no_more():
    """lablup/mlxcel#891: window 8, prompt 8, block 2."""
    findings = judge(
        """
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {step: 0, phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}], attention: [{family: sliding,
   offset: 0, q: 8,
   k: 8, mask: [8, 8]}]}
- {step: 1, phase: verify, rows: [{seq: a, offset: 8, tokens: 2}], attention: [{family: sliding, offset: 8,
   live: 8, q: 2, k: 10, mask: [2, 9], fate: discarded, fallback: windowed}]}
"""
    )
    assert [(finding.code, finding.severity) for finding in findings] == [("MD101", "info")]


def test_9_against_10_under_the_first_fix_is_a_crash():
    findings = judge(
        """
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {step: 1, phase: verify, rows: [{seq: a, offset: 8, tokens: 2}], attention: [{family: sliding, offset: 8,
   live: 8, q: 2, k: 10, mask: [2, 9], fate: rejected}], error: {text: "mask key axis (9) is shorter than the
   returned key length (10)"}}
"""
    )
    assert [(finding.code, finding.severity) for finding in findings] == [("MD901", "error")]
    assert "MD101" in causes(findings[0])


def test_a_capped_mask_of_128_on_298_keys_leaves_170_rows_without_a_key():
    """lablup/mlxcel#412, gpt_oss."""
    (finding,) = judge(
        """
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {step: 0, rows: [{offset: 0, tokens: 298}], attention: [{family: sliding, offset: 0, q: 298, k: 298,
   mask: [298, 128]}]}
"""
    )
    assert (finding.code, finding.severity, causes(finding)) == ("MD101", "error", ["MD107"])
    assert finding.evidence["empty_rows"] == 170


def test_a_capped_mask_of_1024_on_1511_keys_leaves_487_rows_without_a_key():
    """lablup/mlxcel#401, gemma3: additive mask on keys sliced to the window."""
    findings = judge(
        """
model: {layers: {sliding: {attention: sliding, window: 1024}}}
steps:
- {step: 0, rows: [{offset: 0, tokens: 1511}], attention: [{family: sliding, offset: 0, q: 1511, k: 1511,
   mask: [1511, 1024], fallback: sliced}], output: [{row: 1510, nan: 262208}]}
"""
    )
    assert codes(findings) == {"MD101", "MD107", "MD401"}
    (headline,) = findings
    assert headline.code == "MD401"
    assert headline.evidence["empty_rows"] == 487


def test_a_capped_mask_in_a_second_chunk_of_768_at_window_512_leaves_256_rows_without_a_key():
    """lablup/mlxcel#413, gemma3n: a dense cache, keys sliced to the mask."""
    (finding,) = judge(
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 512}}}
steps:
- {step: 1, rows: [{offset: 768, tokens: 768}], attention: [{family: sliding, offset: 768, q: 768, k: 1536,
   mask: [768, 512], fallback: sliced}]}
"""
    )
    assert (finding.code, finding.severity, causes(finding)) == ("MD101", "error", ["MD107"])
    assert finding.evidence["empty_rows"] == 256


def test_2048_against_1536_under_a_key_cap_follows_the_offset():
    """lablup/mlxcel#419: cap 1024, chunk 512."""
    (finding,) = judge(
        """
scheduler: {chunk: 512, max_kv: 1024}
model: {layers: {full: {attention: full}}}
steps:
- {step: 3, rows: [{offset: 1536, tokens: 512}], attention: [{family: full, offset: 1536,
   live_start: 512, q: 512,
   k: 1536, mask: [512, 2048]}]}
"""
    )
    assert (finding.code, finding.severity, causes(finding)) == ("MD102", "error", ["MD106"])


def test_a_continuation_clamped_to_512_of_1023_keys_narrows_without_a_word():
    """lablup/mlxcel#678: the cache returns its window only; the mask follows, so nothing crashes."""
    findings = judge(
        """
model: {layers: {sliding: {attention: sliding, cache: rotating, window: 512}}}
steps:
- {step: 1, rows: [{offset: 512, tokens: 512}], attention: [{family: sliding, offset: 512, q: 512, k: 512,
   mask: [512, 512]}]}
"""
    )
    assert "MD201" in codes(findings)
    assert {finding.severity for finding in findings} == {"error"}
    assert any("1023" in finding.message for finding in findings)


def test_563_against_308_follows_the_physical_buffer():
    """lablup/mlxcel#1776: buffer 556 against offset 301."""
    (finding,) = judge(
        """
model: {layers: {sliding: {attention: sliding, cache: rotating, window: 1024}}}
steps:
- {step: 2, rows: [{offset: 301, tokens: 7}], attention: [{family: sliding, offset: 301, buffer: 556,
   q: 7, k: 308,
   mask: [7, 563]}]}
"""
    )
    assert (finding.code, finding.severity) == ("MD102", "error")
    assert "556" in finding.cause[0]


def test_a_callers_mask_kept_past_the_window_has_the_right_length_and_no_band():
    """lablup/mlxcel#1204."""
    (finding,) = judge(
        f"""
{GEMMA4}
steps:
- {{step: 4, rows: [{{offset: 511, tokens: 160}}], mask: {{shape: [160, 671], offset: 511, builder: causal}},
   attention: [{{family: sliding, offset: 511, q: 160, k: 671, mask: [160, 671], fate: used}},
   {{family: full, offset: 511, q: 160, k: 671, mask: [160, 671], fate: used}}]}}
"""
    )
    assert (finding.code, finding.severity, finding.family) == ("MD108", "error", "sliding")


def test_first_token_from_a_padding_row_and_pads_left_in_the_cache():
    """The same path's padding: 2208 after 2201 tokens."""
    findings = judge(
        """
model: {layers: {full: {attention: full}}}
steps:
- {step: 5, phase: chunk, rows: [{seq: seq-6, offset: 2048, tokens: 153, padded: 160, total: 2201}],
   attention: [{family: full, offset: 2048, q: 160, k: 2208, mask: [160, 2208]}], output: [{row: 159}]}
- {step: 6, phase: decode, rows: [{seq: seq-6, offset: 2208, tokens: 1, emitted: 1, classes: r}],
   attention: [{family: full, offset: 2208, q: 1, k: 2209, mask: null}]}
"""
    )
    assert {"MD404", "MD206"} <= codes(findings)
    assert all(finding.severity == "error" for finding in findings)


def test_a_trace_of_ten_lines_written_by_hand_is_judged_by_defaults():
    report = inspect_trace(
        parse(
            """
            model:
              config: {sliding_window: 512}
            steps:
            - rows: [{offset: 0, tokens: 512}]
              attention:
              - {family: sliding, k: 512, mask: causal}
              - {family: full, k: 512, mask: causal}
            - rows: [{offset: 512, tokens: 100}]
              attention:
              - {family: sliding, k: 611, mask: [100, 100]}
              - {family: full, k: 612, mask: causal}
            """
        )
    )
    assert report.summary.judged == report.summary.calls == 4
    (finding,) = report.findings
    assert (finding.code, finding.family) == ("MD101", "sliding")
    assert causes(finding) == ["MD105"]
