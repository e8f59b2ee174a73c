from __future__ import annotations

import pytest

from mlxdiag.bundle.reproduce.controls import FAILS, PASSES, Control
from mlxdiag.bundle.reproduce.edge import describe, in_short
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay.shrink import shrink
from mlxdiag.replay.shrink.oracles import inspecting, signature
from mlxdiag.traces.reader import read
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
