"""Visibility against a definition written out in plain Python, one query and one key at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.inspect.visibility import observe, required


def must_see(kind, p, window, live_start, spans, seq):
    """rules.md, "What a query at position p must see", position by position."""
    wanted = set()
    for x in range(p + 1):
        inside = kind == "full" or (kind == "sliding" and x > p - window)
        inside = inside or (kind == "chunked" and x // window == p // window)
        if inside and x >= live_start:
            wanted.add(x)
    for owner, start, stop in spans:
        if owner == seq and start <= p < stop:
            wanted |= {x for x in range(start, stop) if x >= live_start}
    return wanted


def brute(mask, key_seq, key_pos, query_seq, query_pos, real, kind, window, live_start, keep, spans):
    rows, queries = query_pos.shape
    out = {"first": [], "last": [], "visible": []}
    lists = {name: set() for name in ("missing", "future", "padding", "foreign")}
    counters = ("old", "duplicate", "padding_queries", "wrong_queries")
    totals = dict.fromkeys((*lists, *counters), 0)
    for b in range(rows):
        for name in out:
            out[name].append([])
        for i in range(queries):
            if not real[b][i]:
                for name in out:
                    out[name][b].append(-1)
                continue
            seq, p = query_seq[b][i], query_pos[b][i]
            wanted = must_see(kind, p, window, live_start, spans, seq)
            span = [(s, e) for o, s, e in spans if o == seq and s <= p < e]
            newest = max([p, *(e - 1 for _, e in span)])
            oldest = min(wanted, default=max(live_start, 0))
            seen, count = [], 0
            before = dict(totals)
            for j in range(key_pos.shape[1]):
                if not mask[b if len(mask) > 1 else 0][i][j]:
                    continue
                count += 1
                x = int(key_pos[b][j])
                if key_seq[b][j] < 0:
                    totals["padding"] += 1
                    lists["padding"].add((b, i, x))
                elif key_seq[b][j] != seq:
                    totals["foreign"] += 1
                    lists["foreign"].add((b, i, x))
                else:
                    if x in seen:
                        totals["duplicate"] += 1
                    seen.append(x)
                    if x > newest:
                        totals["future"] += 1
                        lists["future"].add((b, i, x))
                    if wanted and x < oldest and x >= keep:
                        totals["old"] += 1
            held = {int(x) for x, s in zip(key_pos[b], key_seq[b], strict=True) if s == seq and x < keep}
            if kind == "full":
                wanted |= {x for x in held if x < oldest}
            for x in sorted(wanted - set(seen)):
                totals["missing"] += 1
                lists["missing"].add((b, i, x))
            wrong = any(
                totals[name] > before[name] for name in ("missing", "future", "foreign", "old", "duplicate")
            )
            totals["wrong_queries"] += wrong
            totals["padding_queries"] += totals["padding"] > before["padding"]
            out["first"][b].append(min(seen, default=-1))
            out["last"][b].append(max(seen, default=-1))
            out["visible"][b].append(count)
    return out, lists, totals


@st.composite
def calls(draw):
    rows, queries, keys = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(0, 7))
    grid = lambda low, high, *shape: np.array(  # noqa: E731
        draw(st.lists(st.integers(low, high), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))),
        dtype=np.int64,
    ).reshape(shape)
    start = draw(st.integers(0, 3))
    return {
        "mask": grid(0, 1, draw(st.sampled_from([1, rows])), queries, keys).astype(bool),
        "key_seq": grid(-1, 1, rows, keys),
        "key_pos": grid(0, 8, rows, keys),
        "query_seq": grid(0, 1, rows, queries),
        "query_pos": grid(start, 8, rows, queries),
        "query_real": grid(0, 1, rows, queries).astype(bool),
        "kind": draw(st.sampled_from(["full", "sliding", "chunked"])),
        "window": draw(st.integers(1, 6)),
        "live_start": start,
        "keep": draw(st.integers(0, 2)),
        "spans": draw(st.sampled_from([(), ((0, 2, 5),), ((1, 0, 3), (0, 4, 9))])),
    }


@settings(max_examples=400, deadline=None)
@given(calls())
def test_observe_agrees_with_the_definition_spelled_out(case):
    got = observe(**case, limit=10_000)
    out, lists, totals = brute(
        *(case[n] for n in ("mask", "key_seq", "key_pos", "query_seq", "query_pos", "query_real")),
        *(case[n] for n in ("kind", "window", "live_start", "keep", "spans")),
    )
    for name, value in out.items():
        assert got[name] == value, name
    for name, value in lists.items():
        assert set(got[name]) == value, name
    assert got["totals"] == totals


def sliding_call(offset, q, window, kept):
    """A right sliding call: keys `offset-kept .. offset+q-1`, one row of sequence 0."""
    keys = np.arange(offset - kept, offset + q)[None]
    queries = np.arange(offset, offset + q)[None]
    mask = (keys[:, None, :] <= queries[:, :, None]) & (keys[:, None, :] > queries[:, :, None] - window)
    return {
        "mask": mask,
        "key_seq": np.zeros_like(keys),
        "key_pos": keys,
        "query_seq": np.zeros_like(queries),
        "query_pos": queries,
        "query_real": np.ones_like(queries, dtype=bool),
        "kind": "sliding",
        "window": window,
    }


def test_the_rebuilt_mask_of_a_padded_chunk_sees_its_window_and_nothing_else():
    got = observe(**sliding_call(offset=2048, q=160, window=512, kept=511))
    assert got["totals"] == dict.fromkeys(got["totals"], 0)
    assert got["visible"] == [[512] * 160]
    assert got["first"][0][0] == 2048 - 511
    assert got["last"][0][-1] == 2048 + 159


def test_one_wrong_bit_is_found():
    call = sliding_call(offset=20, q=4, window=8, kept=7)
    call["mask"][0, 2, 3] = ~call["mask"][0, 2, 3]
    got = observe(**call)
    assert got["missing"] == [(0, 2, 16)]
    assert got["totals"]["missing"] == 1


def test_a_capped_mask_leaves_170_rows_empty():
    """gpt_oss, window 128, one pass of 298 (lablup/mlxcel#412): rows before 298 - 128 see nothing."""
    call = sliding_call(offset=0, q=298, window=128, kept=0)
    columns = np.arange(128)[None, None, :]
    rows = np.arange(298)[None, :, None]
    for name in ("key_seq", "key_pos"):
        call[name] = call[name][:, -128:]
    call["mask"] = columns <= rows + 128 - 298
    got = observe(**call)
    assert sum(count == 0 for count in got["visible"][0]) == 170


def test_a_stale_copy_of_a_position_is_noticed():
    call = sliding_call(offset=4, q=1, window=8, kept=4)
    call["key_pos"] = np.array([[0, 1, 2, 2, 4]])
    got = observe(**call)
    assert got["totals"]["duplicate"] == 1
    assert got["missing"] == [(0, 0, 3)]


def test_lists_are_bounded_and_totals_are_not():
    call = sliding_call(offset=0, q=100, window=200, kept=0)
    call["mask"] = np.zeros_like(call["mask"])
    got = observe(**call)
    assert len(got["missing"]) == 64
    assert got["totals"]["missing"] == 100 * 101 // 2


def test_a_kind_without_its_window_is_refused():
    with pytest.raises(ValueError, match="sliding"):
        required("sliding", np.zeros(1, int), np.zeros(1, int))


def test_arrays_that_do_not_agree_are_refused():
    call = sliding_call(offset=4, q=2, window=8, kept=4)
    with pytest.raises(ValueError, match="do not fit"):
        observe(**{**call, "key_pos": call["key_pos"][:, 1:]})
