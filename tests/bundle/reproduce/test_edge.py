from __future__ import annotations

import pytest

from mlxdiag.bundle.reproduce.controls import FAILS, PASSES, Control
from mlxdiag.bundle.reproduce.edge import describe, in_short
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay.shrink import shrink
from mlxdiag.replay.shrink.oracles import inspecting, signature
from mlxdiag.traces.reader import parse, read
from tests.samples.expected import FOLDER


def small(name: str, code: str):
    trace = read(FOLDER / f"{name}.yaml")
    fault = next(f for f in inspect_trace(trace).findings if f.code == code)
    return fault, shrink(trace, inspecting(code), 5000, target=frozenset({signature(fault)}), source="t")


def single(result: str) -> Control:
    return Control(name="single-pass", what="", result=result)


@pytest.mark.parametrize(
    ("name", "code", "whose"),
    [
        ("gpt-oss-one-pass", "MD901", "It lies in the program that calls the library"),
        ("gemma4-padding-left-behind", "MD203", "It lies in the program that schedules"),
    ],
)
def test_whose_fault_it_is(name, code, whose):
    fault, shrunk = small(name, code)
    told = list(in_short(fault, shrunk, shrunk.control, [single(PASSES)]))
    assert told[-1].startswith(whose)
    assert told[0].startswith(f"The fault: {fault.message}")


def test_the_edge_is_told_in_tokens():
    fault, shrunk = small("gpt-oss-one-pass", "MD901")
    told = list(in_short(fault, shrunk, shrunk.control, [single(FAILS)]))
    assert (
        "sliding window 2: prefill 3 tokens under a mask of [3, 2] (3 tokens in 1 step, of 298 in 1)"
        in told[1]
    )
    assert told[2] == "The nearest that passes: sliding window 2: prefill 2 tokens under a mask of [2, 2]."


def test_a_long_schedule_is_told_by_its_beginning():
    assert describe(read(FOLDER / "gemma4-chunked-prefill.yaml")).endswith(" and 7 more")


def test_a_padding_mask_that_is_too_short_is_told_with_its_step():
    trace = parse("""
steps:
- {step: 1, phase: prefill, rows: [{seq: a, offset: 0, tokens: 4}]}
- {step: 2, phase: decode, rows: [{seq: a, offset: 4, tokens: 1}], attention: [{family: full, offset: 4, q: 1,
   k: 5, mask: [1, 1, 1, 5], key_padding: 1}]}
""")
    assert describe(trace).endswith(
        "prefill 4 tokens, then decode 1 token at 4 under a padding mask of 1 column"
    )
