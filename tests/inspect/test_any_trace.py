"""Whatever a trace says, the rules answer: no entry that the reader lets through ends in an exception."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from mlxdiag.inspect.inspector import Inspector
from mlxdiag.traces.checks import contradiction
from mlxdiag.traces.types import (
    CACHE_KINDS,
    FALLBACKS,
    FATES,
    PHASES,
    TOKEN_CLASSES,
    Attention,
    Entry,
    Family,
    Header,
    Mask,
    Model,
    Output,
    Row,
    Scheduler,
    Tokens,
)

FAMILIES = ("full", "sliding", "chunked", "recurrent", None)


def maybe(strategy):
    return st.none() | strategy


number = st.integers(-3, 40)
count = st.integers(0, 40)
shape = st.lists(number, max_size=5).map(tuple)
mask = st.one_of(st.just(UNSET), st.none(), st.just("causal"), shape)
per_row = st.one_of(number, st.lists(number, max_size=3))

rows = st.builds(
    Row,
    seq=maybe(st.sampled_from("ab")),
    phase=maybe(st.sampled_from(PHASES[:16])),
    offset=maybe(number),
    tokens=maybe(count),
    padded=maybe(count),
    left_padding=maybe(number),
    right_padding=maybe(number),
    scheduled=maybe(count),
    emitted=maybe(count),
    classes=maybe(st.text(TOKEN_CLASSES, max_size=12)),
    ids=maybe(st.lists(st.integers(0, 3), max_size=12)),
    finish=maybe(st.sampled_from(("eos", "length", "repetition"))),
    asked=maybe(count),
    done=maybe(count),
    matched=maybe(count),
    entry=maybe(count),
    trimmed=maybe(count),
    restored=maybe(count),
    declared=maybe(number),
    size=maybe(number),
    drafted=maybe(count),
    accepted=maybe(count),
)
calls = st.builds(
    Attention,
    family=st.sampled_from(FAMILIES),
    layers=maybe(st.lists(st.integers(0, 3), max_size=3)),
    cache=maybe(st.sampled_from(CACHE_KINDS)),
    window=maybe(number),
    keep=maybe(number),
    slack=maybe(number),
    offset=maybe(per_row),
    cursor=maybe(number),
    live_start=maybe(number),
    live=maybe(number),
    buffer=maybe(number),
    q=maybe(number),
    k=maybe(per_row),
    rope=maybe(per_row),
    mask=mask,
    fate=maybe(st.sampled_from(FATES)),
    fallback=maybe(st.sampled_from(FALLBACKS)),
    opaque=maybe(st.booleans()),
    asked=maybe(count),
    done=maybe(count),
    vectors=maybe(st.dictionaries(st.sampled_from(("offset", "left_padding")), number, max_size=2)),
)
entries = st.builds(
    Entry,
    step=maybe(count),
    phase=maybe(st.sampled_from(PHASES)),
    model=maybe(st.sampled_from(("m1", "m2"))),
    rows=maybe(st.lists(rows, max_size=3)),
    mask=maybe(st.builds(Mask, shape=maybe(shape), offset=maybe(number))),
    attention=maybe(st.lists(calls, max_size=3)),
    output=maybe(st.lists(st.builds(Output, row=maybe(number), nan=maybe(count)), max_size=3)),
    refused=maybe(st.just("no")),
)
families = st.builds(
    Family,
    attention=maybe(st.sampled_from(FAMILIES[:4])),
    cache=maybe(st.sampled_from(CACHE_KINDS)),
    window=maybe(number),
    keep=maybe(number),
    slack=maybe(number),
    layers=maybe(st.lists(st.integers(-1, 3), max_size=3)),
)
headers = st.builds(
    Header,
    scheduler=maybe(st.builds(Scheduler, chunk=maybe(number), max_kv=maybe(number), keep=maybe(number))),
    model=maybe(
        st.builds(
            Model,
            layers=maybe(st.dictionaries(st.sampled_from(("full", "sliding", "chunked")), families)),
            tokens=maybe(st.builds(Tokens, pad=maybe(count), eos=maybe(st.lists(count, max_size=2)))),
        )
    ),
    ids=maybe(st.sampled_from(("raw", "relabelled"))),
)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(header=headers, trace=st.lists(entries, min_size=1, max_size=5), quick=st.booleans())
def test_any_trace_that_does_not_contradict_itself_is_judged(header, trace, quick):
    inspector = Inspector(header, quick=quick)
    for entry in trace:
        if contradiction(entry) is None:
            inspector.feed(entry)
    report = inspector.close()
    assert report.summary.calls == report.summary.judged + report.summary.not_observed
