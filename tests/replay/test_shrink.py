"""Smaller traces with the same fault: the shipped samples, batches, budgets, controls, resuming."""

from __future__ import annotations

import msgspec
import pytest

from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay import experiment
from mlxdiag.replay.shrink import REPLAYS, shrink
from mlxdiag.replay.shrink.oracles import Replaying, fingerprint, inspecting, signature, signatures
from mlxdiag.replay.shrink.sketch import Sketch, measure
from mlxdiag.replay.shrink.walk import Edits
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Entry, Row
from tests.replay.traces import trace
from tests.samples.expected import FOLDER, SAMPLES

EVERY = sorted(FOLDER.glob("*.yaml"))

CHUNKED = """
{"step": 1, "phase": "prefill", "rows": [{"seq": "a", "offset": 0, "tokens": 16}], "attention": [{"family": "sliding", "offset": 0, "q": 16, "k": 16, "mask": [16, 16]}]}
{"step": 2, "phase": "chunk", "rows": [{"seq": "a", "offset": 16, "tokens": 8}], "attention": [{"family": "sliding", "offset": 16, "q": 8, "k": 15, "mask": [8, 15]}]}
{"step": 3, "phase": "chunk", "rows": [{"seq": "a", "offset": 24, "tokens": 6}], "attention": [{"family": "sliding", "offset": 24, "q": 6, "k": 13, "mask": [6, 6]}]}
{"step": 4, "phase": "decode", "rows": [{"seq": "a", "offset": 30, "tokens": 1}], "attention": [{"family": "sliding", "offset": 30, "q": 1, "k": 8, "mask": null}]}
{"phase": "end", "exit": 0}
"""


def smaller(recorded, code=None, budget=5000, **options):
    finding = next(f for f in inspect_trace(recorded).findings if code in (None, f.code))
    at = next(i for i, e in enumerate(recorded.entries) if e.step == finding.step)
    target = frozenset({signature(finding)})
    options = {"at": at, "seq": finding.seq, **options}
    return shrink(recorded, inspecting(finding.code), budget, target=target, **options)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_a_trace_taken_apart_and_put_together_again_is_itself(path):
    recorded = read(path)
    written = Sketch(recorded).write(Edits())
    assert written.header == recorded.header
    assert written.entries == recorded.entries


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_becomes_tiny_and_keeps_its_headline_and_causes(name):
    recorded = read(FOLDER / f"{name}.yaml")
    before = fingerprint(recorded)
    shrunk = smaller(recorded)
    assert fingerprint(recorded) == before, "the input is never changed"
    assert shrunk.after.tokens <= 4
    assert shrunk.after.steps <= 2
    first = next(iter(shrunk.target))
    assert first in signatures(inspect_trace(shrunk.trace), first[:5])
    assert shrunk.complete
    assert shrunk.control is not None
    assert not signatures(inspect_trace(shrunk.control))


@pytest.mark.parametrize("name", ["gemma3-decode-growth", "gemma4-padding-left-behind", "qwen3-key-cap"])
def test_a_shrunken_sample_runs_on_real_model_code_and_shows_the_fault_there(name):
    shrunk = smaller(read(FOLDER / f"{name}.yaml"))
    prepared = experiment.prepare(shrunk.trace, source="t")
    ran = experiment.run_policies(prepared, experiment.instance_for(prepared), (prepared.plan.misfit,))[0]
    assert shrunk.target <= signatures(ran.report)
    assert prepared.plan.notes == ()


def test_lengths_follow_what_is_left_of_the_trace():
    shrunk = smaller(trace(CHUNKED))
    assert [e.rows[0].offset for e in shrunk.trace.entries if e.rows] == [0, 1]
    first, last = (e for e in shrunk.trace.entries if e.attention)
    window = shrunk.trace.header.model.layers["sliding"].window
    assert first.attention[0].mask == (1, 1)
    call = last.attention[0]
    assert call.mask == (call.q, call.q), "a stale mask stays stale: as wide as the chunk"
    assert call.k == min(1, window - 1) + call.q


def test_the_search_keeps_to_the_cause_it_was_asked_for():
    # A second, simpler fault in the first step: a window mask that is two columns short of its keys.
    two = trace(CHUNKED.replace('"k": 16, "mask": [16, 16]', '"k": 16, "mask": [16, 14]'))
    asked = {f.step: signature(f) for f in inspect_trace(two).findings if f.code == "MD101"}
    assert asked == {1: "MD101", 3: "MD101 because of MD105"}
    kept = shrink(two, inspecting(), 5000, target=frozenset({asked[3]}))
    assert asked[3] in signatures(inspect_trace(kept.trace))


def test_without_a_target_everything_seen_must_stay():
    two = trace(CHUNKED.replace('"k": 16, "mask": [16, 16]', '"k": 16, "mask": [16, 14]'))
    shrunk = shrink(two, inspecting(), 5000)
    assert shrunk.target == {"MD101", "MD101 because of MD105"}
    assert shrunk.target <= signatures(inspect_trace(shrunk.trace))


def test_the_search_is_deterministic():
    once, again = (smaller(read(FOLDER / "qwen3-key-cap.yaml")) for _ in range(2))
    assert fingerprint(once.trace) == fingerprint(again.trace)
    assert (once.runs, once.kept) == (again.runs, again.kept)


def test_rows_that_the_fault_does_not_need_are_left_out():
    batch = trace(
        """
        {"step": 1, "phase": "prefill", "rows": [{"seq": "a", "offset": 0, "tokens": 6}, {"seq": "b", "offset": 0, "tokens": 9}, {"seq": "c", "offset": 0, "tokens": 4}], "attention": [{"family": "full", "cache": "batch", "offset": 0, "q": 9, "k": 9, "mask": null}]}
        {"step": 2, "phase": "decode", "rows": [{"seq": "a", "tokens": 1}, {"seq": "b", "tokens": 1}, {"seq": "c", "tokens": 1}], "attention": [{"family": "full", "cache": "batch", "q": 1, "k": 10, "mask": [3, 1, 1, 10]}]}
        """.replace('"tokens": 6}', '"tokens": 6, "left_padding": 3}').replace(
            '"tokens": 4}', '"tokens": 4, "left_padding": 5}'
        ),
        "llama",
    )
    shrunk = smaller(batch, "MD501")
    (first,) = [e for e in shrunk.trace.entries if e.rows]
    assert len(first.rows) == 2, "one padded row, and a longer one that it is padded to"
    assert sorted(row.left_padding or 0 for row in first.rows) == [0, 1]


def long_trace(steps: int):
    """A thousand-step answer whose mask goes stale in the last chunk."""
    head = trace(CHUNKED)
    entries = list(head.entries[:2])
    offset = 24
    for number in range(steps):
        call = msgspec.structs.replace(head.entries[3].attention[0], offset=offset, q=1, k=8)
        row = Row(seq="a" if number % 2 else "b", tokens=1)
        entries.append(Entry(step=3 + number, phase="decode", rows=[row], attention=[call]))
        if row.seq == "a":
            entries[-1] = msgspec.structs.replace(entries[-1], rows=[Row(seq="a", offset=offset, tokens=1)])
            offset += 1
    stale = msgspec.structs.replace(head.entries[2].attention[0], offset=offset)
    last = Entry(
        step=steps + 3, phase="chunk", rows=[Row(seq="a", offset=offset, tokens=6)], attention=[stale]
    )
    return msgspec.structs.replace(head, entries=[*entries, last, head.entries[-1]])


@pytest.mark.parametrize("hint", [True, False])
def test_a_thousand_steps_take_at_most_sixty_runs(hint):
    recorded = long_trace(1000)
    asked = 0
    judge = inspecting()

    def oracle(one):
        nonlocal asked
        asked += 1
        return judge(one)

    where = {"at": len(recorded.entries) - 2, "seq": "a"} if hint else {}
    shrunk = shrink(recorded, oracle, REPLAYS, target=frozenset({"MD101 because of MD105"}), **where)
    assert asked == shrunk.runs <= REPLAYS
    assert shrunk.before.steps == 1003
    assert shrunk.after.steps <= 3
    assert shrunk.after.tokens <= 8


def test_what_the_rules_alone_do_not_see_is_shrunk_on_real_model_code():
    # gemma2 keeps dense caches and hands every layer one causal mask: no row of a schedule shows it.
    recorded = trace(
        '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}\n'
        '{"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}]}\n'
        '{"step": 3, "rows": [{"seq": "a", "offset": 17, "tokens": 1}]}',
        "gemma2_windowed",
    )
    assert not inspect_trace(recorded).findings
    shrunk = shrink(recorded, Replaying("t"), REPLAYS, target=frozenset({"MD302"}))
    assert shrunk.runs <= REPLAYS
    window = shrunk.trace.header.model.layers["sliding"].window
    assert (shrunk.after.steps, shrunk.after.tokens) == (1, window + 2), "one key too many is a warning only"
    assert measure(shrunk.control).tokens == window + 1


def test_a_search_goes_on_from_the_answers_of_an_interrupted_one(tmp_path):
    recorded, state = read(FOLDER / "qwen3-key-cap.yaml"), tmp_path / "state.jsonl"
    judge, asked = inspecting(), []

    def failing(one):
        if len(asked) == 7:
            raise KeyboardInterrupt
        asked.append(one)
        return judge(one)

    target = frozenset({"MD901 because of MD102, MD106"})
    with pytest.raises(KeyboardInterrupt):
        shrink(recorded, failing, 5000, target=target, state=state)
    state.write_bytes(state.read_bytes() + b'{"trace": "cut o')

    def counting(one):
        asked.append(one)
        return judge(one)

    asked.clear()
    resumed = shrink(recorded, counting, 5000, target=target, state=state)
    whole = shrink(recorded, judge, 5000, target=target)
    assert len(asked) == whole.runs - 7
    assert resumed.runs == whole.runs
    assert fingerprint(resumed.trace) == fingerprint(whole.trace)


def test_lengths_can_be_kept_for_a_model_with_a_window_of_its_own():
    shrunk = smaller(read(FOLDER / "gpt-oss-one-pass.yaml"), fixed=("window",))
    assert shrunk.after.tokens == 129, "the shortest pass beyond a window of 128"


@pytest.mark.parametrize(("budget", "complete"), [(8, False), (15, False), (20, True)])
def test_a_search_that_the_budget_ended_says_so(budget, complete):
    shrunk = smaller(read(FOLDER / "gemma4-chunked-prefill.yaml"), budget=budget)
    smallest = (shrunk.after.steps, shrunk.after.tokens) == (1, 2)
    assert (shrunk.complete, smallest) == (complete, complete)


def test_a_padding_mask_of_the_chunk_alone_stays_that_of_a_shorter_chunk():
    recorded = trace(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}], "attention": [{"family": "full", "offset": 12, "q": 5, "k": 17, "mask": [1, 1, 5, 17], "key_padding": 5}]}""",
        "llama",
    )
    shrunk = smaller(recorded, "MD111")
    ((call,),) = [entry.attention for entry in shrunk.trace.entries if entry.attention]
    assert call.q < 5
    assert call.key_padding == call.q


def test_a_trace_without_the_fault_is_refused():
    with pytest.raises(UnjudgedError, match="shows no fault"):
        shrink(read(FOLDER / "gpt-oss-one-pass-healthy.yaml"), inspecting(), 10)
    with pytest.raises(UnjudgedError, match="does not show MD304, but MD101"):
        shrink(trace(CHUNKED), inspecting(), 10, target=frozenset({"MD304"}))
