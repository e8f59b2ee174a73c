"""Dispatch, counting, selection, following, and memory that does not grow with the file."""

from __future__ import annotations

import tracemalloc

import pytest

from mlxdiag.errors import UsageError
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import Inspector, inspect_trace
from mlxdiag.inspect.rules import RULES
from mlxdiag.reports.view import verdict
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Attention, Entry, Family, Header, Model, Row

SHORT = """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {step: 5, rows: [{seq: a, offset: 2048, tokens: 153, padded: 160}], attention: [{family: sliding, k: 671,
   mask: [160, 160]}, {family: sliding}]}
- {step: 6, phase: trim, rows: [{seq: a, asked: 7, done: 7}]}
"""


def test_steps_calls_and_what_was_not_observed_are_counted():
    summary = inspect_trace(parse(SHORT)).summary
    assert (summary.steps, summary.calls, summary.judged, summary.not_observed) == (2, 2, 1, 1)
    assert (summary.errors, summary.warnings, summary.infos) == (1, 0, 0)


def test_an_entry_without_calls_is_counted_as_other_evidence():
    summary = inspect_trace(parse("steps:\n- {rows: [{seq: a, tokens: 1, emitted: 1, classes: t}]}")).summary
    assert (summary.calls, summary.other) == (0, 1)


def test_a_call_that_lacks_everything_is_not_observed_and_no_finding():
    report = inspect_trace(parse("steps:\n- {rows: [{tokens: 4}], attention: [{family: full}]}"))
    assert (report.findings, report.summary.judged, report.summary.not_observed) == ([], 0, 1)


OPAQUE = """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 4}], attention: [{family: full, offset: 0, q: 4, k: 4}]}
- {rows: [{offset: 4, tokens: 1}], attention: [{family: full, offset: 4, q: 1, k: 5, opaque: true}]}
- {rows: [{offset: 5, tokens: 1}], attention: [{family: full, offset: 5, q: 1, k: 6, opaque: true}]}
"""


def test_a_call_whose_attention_function_is_unknown_is_not_observed_whatever_its_lengths_and_told_of_once():
    report = inspect_trace(parse(OPAQUE))
    assert (report.findings, report.summary.judged, report.summary.not_observed) == ([], 1, 2)
    (note,) = report.summary.notes
    assert note.startswith("2 attention calls went to an attention function of the program's own")
    assert not verdict(report).startswith("clean")


def test_the_lengths_of_a_call_of_an_unknown_function_are_judged_all_the_same():
    report = inspect_trace(parse(OPAQUE.replace("k: 6", "k: 9")))
    assert codes(report.findings) == {"MD201"}


def test_where_steps_are_not_numbered_the_place_in_the_file_is_told():
    text = """
steps:
- {rows: [{offset: 0, tokens: 4}], attention: [{family: full, k: 4, mask: [4, 4]}]}
- {rows: [{offset: 4, tokens: 4}], attention: [{family: full, k: 8, mask: [4, 4]}]}
"""
    (finding,) = inspect_trace(parse(text)).findings
    assert (finding.step, finding.evidence["entry"]) == (None, 2)


def test_select_and_ignore_take_prefixes():
    trace = parse(SHORT)
    assert codes(inspect_trace(trace, select=["MD1"]).findings) == {"MD101", "MD105"}
    (selected_by_its_cause,) = inspect_trace(trace, select=["MD105"]).findings
    assert selected_by_its_cause.code == "MD101"
    assert codes(inspect_trace(trace, ignore=["MD1"]).findings) == set()


def test_an_ignored_fault_does_not_come_back_as_its_cause_and_is_counted_as_hidden():
    report = inspect_trace(parse(SHORT), ignore=["MD101"])
    assert report.findings == []
    assert report.summary.hidden == 1


def test_leaving_no_rule_is_a_usage_error():
    with pytest.raises(UsageError, match="leave no rule"):
        Inspector(Header(), select=["MD1"], ignore=["MD1"])


@pytest.mark.parametrize("prefix", ["MD8", "MD1011", "", "md1"])
def test_a_prefix_of_no_rule_is_a_usage_error(prefix):
    with pytest.raises(UsageError, match="no rule"):
        Inspector(Header(), select=[prefix])


def test_feeding_returns_only_what_is_new():
    trace = parse(SHORT)
    inspector = Inspector(trace.header, select=["MD1"])
    entry = trace.entries[0]
    assert [finding.code for finding in inspector.feed(entry)] == ["MD101"]
    assert inspector.feed(entry) == []
    assert inspector.close().findings[0].count == 2


def test_a_truncated_file_says_so_and_its_steps_are_still_judged():
    trace = parse(SHORT)
    inspector = Inspector(trace.header)
    for entry in trace.entries:
        inspector.feed(entry)
    report = inspector.close(truncated=True)
    assert report.summary.truncated
    assert {"MD101", "MD903"} <= codes(report.findings)


def test_families_belong_to_the_model_of_their_entry():
    """The same family name, two windows: 15 keys fit the draft's window of 8, and 12 the other's of 5."""
    text = """
steps:
- {phase: model, model: big, layers: {s: {attention: sliding, cache: rotating, window: 8}}}
- {phase: model, model: draft, layers: {s: {attention: sliding, cache: rotating, window: 5}}}
- {step: 0, model: big, phase: chunk, rows: [{seq: a, offset: 20, tokens: 8}], attention: [{family: s,
   q: 8, k: 15,
   mask: [8, 15]}]}
- {step: 1, model: draft, phase: chunk, rows: [{seq: a, offset: 20, tokens: 8}], attention: [{family: s, q: 8,
   k: 12, mask: [8, 12]}]}
- {step: 2, model: big, phase: chunk, rows: [{seq: a, offset: 28, tokens: 8}], attention: [{family: s,
   q: 8, k: 12,
   mask: [8, 12]}]}
"""
    (finding,) = inspect_trace(parse(text), select=["MD201"]).findings
    assert finding.step == 2


def test_a_model_entry_without_a_phase_is_a_model():
    text = """
steps:
- {name: m, layers: {s: {attention: sliding, cache: rotating, window: 8}}}
- {rows: [{offset: 20, tokens: 6}], attention: [{family: s, k: 13, mask: [6, 6]}]}
"""
    assert codes(inspect_trace(parse(text)).findings) == {"MD101", "MD105"}


def decodes(count):
    for step in range(count):
        yield Entry(
            step=step,
            phase="decode",
            rows=[Row(seq="a", offset=step, tokens=1, emitted=1, classes="t", ids=[step * step % 9973])],
            attention=[Attention(family="full", offset=step, q=1, k=step + 1, mask=None)],
        )


def test_memory_does_not_grow_with_the_number_of_steps():
    inspector = Inspector(Header(model=Model(layers={"full": Family(attention="full")})))
    for entry in decodes(12_000):
        inspector.feed(entry)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for entry in decodes(12_000):
        inspector.feed(entry)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 500_000


def test_memory_does_not_grow_with_the_number_of_sequences():
    inspector = Inspector(Header(model=Model(layers={"full": Family(attention="full")})))

    def answers(start, count):
        for number in range(start, start + count):
            for q, offset in ((3, 0), (1, 3)):
                row = Row(seq=f"s{number}", offset=offset, tokens=q, emitted=1, classes="t", ids=[5])
                call = Attention(family="full", offset=offset, q=q, k=offset + q, mask="causal")
                yield Entry(phase="decode" if q == 1 else "prefill", rows=[row], attention=[call])

    for entry in answers(0, 5000):
        inspector.feed(entry)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for entry in answers(5000, 4000):
        inspector.feed(entry)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # The new sequences take the place of as many old ones, whose memory was not traced.
    assert grown < 4000 * 1000
    assert len(inspector.run.sequences._known) <= 4097


def test_every_rule_has_a_docstring_and_a_hint_that_is_a_command():
    assert all(rule.hint.startswith("mlxdiag ") for rule in RULES)
