"""The quick test for healthy entries never hides a finding: with and without it the report is the same."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from mlxdiag.inspect.inspector import Inspector
from mlxdiag.inspect.rules import RULES
from mlxdiag.traces.checks import contradiction
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import (
    Attention,
    Entry,
    Family,
    Fault,
    Header,
    Mask,
    Model,
    Output,
    Row,
    Scheduler,
    Tokens,
    Trace,
)

WINDOW = 8
LAYERS = {
    "sliding": Family(attention="sliding", cache="rotating", window=WINDOW),
    "full": Family(attention="full"),
}


def report(trace, quick):
    inspector = Inspector(trace.header, quick=quick)
    for entry in trace.entries:
        inspector.feed(entry)
    return msgspec.to_builtins(inspector.close(trace.truncated))


def keys(family, held, q, cap=None, told="live"):
    """mlx-lm's caches: a rotating one returns `min(held, W-1) + q`, a plain one what is live, and q."""
    if family == "sliding":
        return min(held, WINDOW - 1) + q
    if cap is not None and told == "ring":
        return min(held, cap - 1) + q
    return (held if cap is None else min(held, cap)) + q


def live(held, cap, told):
    """How a front-trimmed cache says what it holds; a ring of the cap's width is the other way to cap."""
    if cap is not None and told == "ring":
        return {"cache": "rotating", "window": cap, "keep": 4}
    if cap is None or held <= cap:
        return {}
    return {"live": cap} if told == "live" else {"live_start": held - cap, "live": cap}


def forward(step, held, seqs, q, classes, model, cap=None, told="live"):
    rows = [
        Row(seq=seq, offset=held, tokens=q, emitted=1, classes=classes, ids=[step * 7 % 5])
        if q == 1
        else Row(seq=seq, offset=held, tokens=q)
        for seq in seqs
    ]
    calls = [
        Attention(
            family=family,
            offset=held,
            q=q,
            k=keys(family, held, q, cap, told),
            rope=held,
            mask=None if q == 1 else (q, keys(family, held, q, cap, told)),
            **(live(held, cap, told) if family == "full" else {}),
        )
        for family in LAYERS
    ]
    phase = "decode" if q == 1 else "chunk" if held else "prefill"
    return Entry(step=step, phase=phase, model=model, rows=rows, attention=calls)


CAPS = st.sampled_from([None, None, 6, 50])


@st.composite
def schedules(draw):
    """A healthy run: chunks, then decode steps, of one sequence or a batch of equal rows."""
    seqs = draw(st.sampled_from([["a"], ["a", "b"], [None]]))
    model = draw(st.sampled_from([None, "m1"]))
    sizes = draw(st.lists(st.integers(2, 12), min_size=1, max_size=2))
    sizes += [1] * draw(st.integers(4, 30))
    letter = draw(st.sampled_from("tttpr0ce"))
    cap, told = draw(CAPS), draw(st.sampled_from(["live", "start", "ring"]))
    entries, held = [], 0
    for step, q in enumerate(sizes):
        entries.append(
            forward(step, held, seqs, q, letter if step > len(sizes) // 2 else "t", model, cap, told)
        )
        held += q
    return cap, entries


SMALL = st.integers(-1, 30)
ROW = {
    "offset": SMALL,
    "tokens": st.integers(0, 3),
    "padded": st.integers(0, 9),
    "left_padding": st.integers(0, 3),
    "right_padding": st.integers(0, 3),
    "scheduled": st.integers(0, 1),
    "emitted": st.integers(0, 2),
    "classes": st.sampled_from(["t", "p", "r", "0", "e", "tt", None]),
    "ids": st.sampled_from([None, [1], [1, 2], [0]]),
    "finish": st.sampled_from(["eos", "length", "repetition"]),
    "logprob": st.sampled_from([None, "nan", -0.5]),
    "phase": st.sampled_from(["decode", "verify", "prefill"]),
    "drafted": st.integers(0, 3),
    "seq": st.sampled_from(["a", "c", None]),
    "asked": st.integers(0, 3),
}
CALL = {
    "family": st.sampled_from(["sliding", "full", "other", None]),
    "cache": st.sampled_from(
        ["dense", "batch", "rotating", "buffered", "paged", "quantized", "static", "recurrent"]
    ),
    "window": st.sampled_from([WINDOW, WINDOW + 1, 2]),
    "keep": st.integers(0, 8),
    "offset": SMALL,
    "cursor": SMALL,
    "live_start": st.integers(0, 20),
    "live": SMALL,
    "buffer": st.integers(0, 40),
    "q": st.integers(0, 3),
    "k": st.one_of(SMALL, st.lists(SMALL, min_size=1, max_size=2)),
    "rope": SMALL,
    "mask": st.sampled_from([None, "causal", (1, 4), (2, 1, 1, 9), (1, 1, 1, 8), (0,), (1, 4, 1, 9)]),
    "fate": st.sampled_from(["used", "discarded", "cropped", "rebuilt", "rejected"]),
    "fallback": st.sampled_from(["windowed", "causal", "sliced", "none"]),
    "crop": st.sampled_from(["old", "new"]),
    "asked": st.integers(0, 3),
    "done": st.integers(0, 3),
    "kv_bits": st.sampled_from([0, 8]),
    "sinks": st.booleans(),
    "vectors": st.sampled_from([{"offset": 1}, {"offset": 2}, {"left_padding": 3}]),
    "visible": st.sampled_from([[[0]], [[8]], [[9]], [[-1]]]),
    "first": st.just([[0]]),
    "last": st.just([[40]]),
    "missing": st.sampled_from([[], [(0, 0, 1)]]),
    "future": st.sampled_from([[], [(0, 0, 1)]]),
    "padding": st.sampled_from([[], [(0, 0, 1)]]),
    "foreign": st.sampled_from([[], [(0, 0, 1)]]),
    "totals": st.sampled_from([{"missing": 0}, {"future": 2}, {"foreign": 1}]),
}
ENTRY = {
    "step": st.integers(0, 40),
    "phase": st.sampled_from(["decode", "chunk", "verify", "trim", "finalize", "save", "load", None]),
    "model": st.sampled_from([None, "m1", "m2"]),
    "mask": st.sampled_from([Mask(shape=(1, 4), offset=0), Mask(offset=3, builder="causal")]),
    "output": st.sampled_from([[Output(nan=1)], [Output(row=0)], [Output(row=2)], [Output(logprob=None)]]),
    "error": st.just(Fault(text="Shapes (1,3) and (1,4,1,9) cannot be broadcast.")),
    "refused": st.just("not trimmable"),
    "dropped": st.integers(0, 3),
    "attention": st.just(None),
    "rows": st.just(None),
}


@st.composite
def disturbed(draw):
    """The schedule with up to three fields changed, and perhaps an entry lost or doubled."""
    cap, entries = draw(schedules())
    cap = draw(st.sampled_from([cap, cap, cap, None, 6]))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(entries) - 1))
        entries[at] = draw(changed(entries[at]))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(entries) - 1))
        entries[at : at + 1] = draw(st.sampled_from([[], [entries[at]] * 2]))
    assume(all(contradiction(entry) is None for entry in entries))
    models = [
        Entry(phase="model", model=name, layers=LAYERS, tokens=Tokens(pad=0, eos=[1]))
        for name in draw(st.sampled_from([[], ["m1"], ["m1", "m2"]]))
    ]
    header = Header(
        level=draw(st.sampled_from([None, "shapes"])),
        model=None if models else Model(layers=LAYERS),
        scheduler=Scheduler(max_kv=cap),
    )
    return Trace(header, [*models, *entries, Entry(phase="end", exit=0)])


@st.composite
def changed(draw, entry):
    kind = draw(st.sampled_from("rrcccce"))
    if kind == "e" or not entry.rows or not entry.attention:
        name = draw(st.sampled_from(sorted(ENTRY)))
        return structs.replace(entry, **{name: draw(ENTRY[name])})
    if kind == "r":
        at = draw(st.integers(0, len(entry.rows) - 1))
        name = draw(st.sampled_from(sorted(ROW)))
        rows = list(entry.rows)
        rows[at] = structs.replace(rows[at], **{name: draw(ROW[name])})
        return structs.replace(entry, rows=rows)
    at = draw(st.integers(0, len(entry.attention) - 1))
    name = draw(st.sampled_from(sorted(CALL)))
    calls = list(entry.attention)
    calls[at] = structs.replace(calls[at], **{name: draw(CALL[name])})
    return structs.replace(entry, attention=calls)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(disturbed())
def test_the_report_is_the_same_with_and_without_the_quick_test(trace):
    assert report(trace, quick=True) == report(trace, quick=False)


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_an_undisturbed_run_of_the_real_formulas_has_no_structural_finding(schedule):
    cap, entries = schedule
    trace = Trace(Header(model=Model(layers=LAYERS), scheduler=Scheduler(max_kv=cap)), entries)
    found = report(trace, quick=True)["findings"]
    assert [finding for finding in found if not finding["code"].startswith("MD6")] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_quick_test_hides_nothing_in_the_rules_own_traces(rule):
    for text in (*rule.fires, *rule.quiet):
        trace = parse(text)
        assert report(trace, quick=True) == report(trace, quick=False)


def test_a_long_answer_is_booked_whole_however_its_steps_were_counted():
    """3000 decode steps, more than wait between two bookings, then a fault that depends on all of them."""
    steps = [forward(0, 0, ["a"], 4, "t", None)]
    steps += [forward(n, 3 + n, ["a"], 1, "t", None) for n in range(1, 3001)]
    late = forward(3001, 3010, ["a"], 1, "t", None)
    trace = Trace(Header(model=Model(layers=LAYERS)), [*steps, late])
    found = report(trace, quick=True)
    assert found == report(trace, quick=False)
    assert "MD203" in {finding["code"] for finding in found["findings"]}
