from __future__ import annotations

import msgspec
import pytest

from mlxdiag.bundle.reproduce import variants
from mlxdiag.replay import plan as planning
from mlxdiag.traces.reader import parse, read
from mlxdiag.traces.types import Trace
from tests.samples.expected import FOLDER, SAMPLES


def sample(name: str) -> Trace:
    return read(FOLDER / f"{name}.yaml")


def fed(trace: Trace) -> list[tuple[str, int, int]]:
    return [(e.kind, e.rows[0].offset, e.rows[0].tokens) for e in trace.entries if e.rows]


def test_the_prompt_is_what_was_fed_before_the_answer():
    prompt = variants.prompt_of(sample("gemma4-chunked-prefill"), "seq-6")
    assert (prompt.seq, prompt.tokens, prompt.chunk) == ("seq-6", 2201, 512)
    assert prompt.masked == frozenset({"chunk"})
    assert prompt.window == 512 or prompt.mask.family is None


def test_all_tokens_are_fed_whatever_the_chunk():
    trace = sample("gemma4-chunked-prefill")
    prompt = msgspec.structs.replace(variants.prompt_of(trace, None), decodes=1)
    for chunk in (1, 7, 512, 2201, 9999):
        steps = fed(variants.chunked(trace, prompt, chunk))
        assert sum(tokens for kind, _, tokens in steps if kind != "decode") == 2201
        assert max(tokens for _, _, tokens in steps) == min(chunk, 2201)
        assert steps[-1] == ("decode", 2201, 1)
    assert fed(variants.chunked(trace, prompt, 2201))[0] == ("prefill", 0, 2201)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        # capped at the window of 128; that program handed one in only where a prompt began
        ("gpt-oss-one-pass", {100: [(100, 100)], 200: [(200, 128)], 298: [(298, 128)]}),
        # causal, counted from the right offset
        ("qwen3-key-cap", {1024: [(1024, 2048)]}),
        # built at zero, whatever the offset
        ("gemma4-chunked-prefill", {1100: [(1100, 1100), (1, 1)]}),
    ],
)
def test_the_schedulers_mask_is_built_again_by_its_own_rule(name, shapes):
    trace = sample(name)
    prompt = variants.prompt_of(trace, None)
    assert variants.can_be_rebuilt(prompt)
    for chunk, expected in shapes.items():
        made = variants.chunked(trace, prompt, chunk, own=True)
        assert [entry.mask.shape for entry in made.entries if entry.mask is not None] == expected


def test_a_mask_whose_rule_is_not_known_is_left_alone():
    # 563 columns: sized by a buffer of 556 slots, which no offset explains.
    assert not variants.can_be_rebuilt(variants.prompt_of(sample("gemma3-decode-growth"), None))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_variant_is_a_schedule_that_can_be_laid(name):
    trace = variants.middle(sample(name)) or sample(name)
    prompt = variants.prompt_of(trace, None)
    made = variants.chunked(trace, prompt, 3)
    model = planning.model_of(made)
    assert planning.lay(made, dict(model.layers), model=model).forwards


def test_the_middle_scale_keeps_what_stands_on_either_side_of_the_window():
    trace = variants.middle(sample("gpt-oss-one-pass"))
    assert trace.entries[0].layers["sliding"].window == variants.MIDDLE
    assert trace.entries[1].rows[0].tokens == 19  # 298 * 8 / 128, upwards
    assert variants.middle(trace) is None


def test_alone_leaves_the_sequence_at_fault():
    trace = parse(
        'steps:\n- {"step": 1, "rows": [{"seq": "a", "tokens": 3}, {"seq": "b", "tokens": 3}]}\n'
        '- {"step": 2, "rows": [{"seq": "a", "tokens": 1}, {"seq": "b", "tokens": 1}]}\n'
    )
    left = variants.alone(trace, "b")
    assert [[row.seq for row in entry.rows] for entry in left.entries] == [["b"], ["b"]]
    assert variants.alone(left, "b") is None


def test_without_a_forward_there_is_no_prompt():
    assert variants.prompt_of(parse("steps: []"), None) is None
