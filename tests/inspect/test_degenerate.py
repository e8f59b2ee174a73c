"""The verdict on bad answers: structural fault or none, said so."""

from __future__ import annotations

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse

PADS = "- {step: 9, phase: decode, rows: [{seq: a, offset: 8, tokens: 1, emitted: 5, classes: tpppp}]"
HEALTHY = ", attention: [{family: full, offset: 8, q: 1, k: 9}]}"
SHORT = """\
- {step: 8, phase: chunk, rows: [{seq: SEQ, tokens: 4}], attention: [{family: full, offset: 4, q: 4, k: 3}]}
"""


def found(steps):
    return {f.code: f for f in inspect_trace(parse("steps:\n" + steps)).findings}


def test_pads_beside_healthy_attention_are_degenerate_output_without_a_structural_fault():
    assert found(PADS + HEALTHY)["MD602"].cause == ["degenerate output, no structural fault in this trace"]


def test_where_nothing_could_be_judged_the_verdict_says_that_too():
    assert "none of its attention calls could be judged" in found(PADS + "}")["MD602"].cause[0]


def test_a_structural_fault_of_the_same_sequence_before_is_named():
    findings = found(SHORT.replace("SEQ", "a") + PADS + HEALTHY)
    assert findings["MD602"].cause[0].startswith("MD201 ")
    assert "MD201" in findings


def test_a_fault_of_another_sequence_or_of_a_later_step_explains_nothing():
    other = found(SHORT.replace("SEQ", "b") + PADS + HEALTHY)
    assert other["MD602"].cause == ["degenerate output, no structural fault in this trace"]
    later = found(PADS + HEALTHY + "\n" + SHORT.replace("step: 8", "step: 10").replace("SEQ", "a"))
    assert later["MD602"].cause == ["degenerate output, no structural fault in this trace"]


def test_a_loop_of_reserved_tokens_is_one_finding_with_the_loop_as_its_cause():
    classes, ids = "r" * 60, [3, 4, 5] * 20
    findings = found(f"- {{phase: decode, rows: [{{seq: a, emitted: 60, classes: {classes}, ids: {ids}}}]}}")
    assert findings.keys() == {"MD601"}
    assert findings["MD601"].cause[0].startswith("MD604 short-cycle: the answer ends in 20 times a loop of 3")


def test_a_loop_of_text_stays_a_warning_with_the_same_verdict():
    ids = [3, 4, 5] * 20
    findings = found(f"- {{phase: decode, rows: [{{seq: a, emitted: 60, ids: {ids}}}]}}")
    assert findings["MD604"].severity == "warning"
    assert findings["MD604"].cause[0].startswith("degenerate output, no structural fault in this trace")
