"""The two segments of a ring, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxdiag.record import ring
from mlxdiag.record.ring import Ring
from mlxdiag.traces import segments
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Attention, Entry, Header, Row

MODEL = Entry(phase="model", model="m1", name="a")


def step(number: int) -> Entry:
    return Entry(step=number, phase="decode", model="m1", rows=[Row(seq="s", offset=number, tokens=1)])


def ring_of(path: Path, size: int, steps: int) -> Ring:
    made = Ring(path, lambda: Header(level="shapes"), size)
    made.put(MODEL)
    for number in range(steps):
        made.put(step(number))
    return made


@pytest.mark.parametrize(("steps", "kept"), [(2, 2), (4, 4), (5, 5), (8, 8), (9, 5), (100, 8), (101, 5)])
def test_between_n_and_2n_of_the_last_entries_are_kept(tmp_path: Path, steps: int, kept: int) -> None:
    path = tmp_path / "t.yaml"
    ring_of(path, 4, steps).close()
    assert ring.join(path)
    trace = read(path)
    assert trace.entries == [MODEL, *(step(number) for number in range(steps - kept, steps))]
    assert trace.header.level == "shapes"
    assert list(tmp_path.iterdir()) == [path]


def test_each_segment_is_a_trace_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    ring_of(path, 4, 10).close()
    held = [read(segment).entries for segment in segments.segments(path)]
    assert held == [[MODEL, step(8), step(9)], [MODEL, *(step(n) for n in range(4, 8))]]


def test_a_model_that_comes_late_is_in_both(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    made = ring_of(path, 4, 6)
    late = Entry(phase="model", model="m2", name="b")
    made.put(late)
    made.put(step(6))
    made.close()
    ring.join(path)
    assert read(path).entries == [MODEL, *(step(n) for n in range(6)), late, step(6)]


def test_a_segment_without_a_whole_header_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    ring_of(path, 4, 4).close()
    segments.segments(path)[1].write_text("sche")
    ring.join(path)
    assert read(path).entries == [MODEL, *(step(n) for n in range(4))]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    ring_of(path, 4, 3).close()
    with segments.segments(path)[0].open("a") as file:
        file.write('- {"step": 3, "pha')
    ring.join(path)
    assert read(path).entries == [MODEL, *(step(n) for n in range(3))]


def test_without_a_ring_there_is_nothing_to_join_or_freeze(tmp_path: Path) -> None:
    assert not ring.join(tmp_path / "t.yaml")
    assert ring.freeze(tmp_path / "t.yaml", "mine") is None
    assert list(tmp_path.iterdir()) == []


def test_one_copy_a_rule_and_never_more_than_a_few(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    made = ring_of(path, 4, 3)
    # The mask is shorter than the keys, at every step.
    call = Attention(family="full", cache="dense", offset=8, q=4, k=12, mask=(4, 4))
    for number in range(3, 9):
        made.put(Entry(step=number, phase="chunk", model="m1", rows=[Row(tokens=4)], attention=[call]))
    made.close()
    copies = [p.name for p in tmp_path.iterdir() if "ring" not in p.name]
    assert len(copies) == len(set(copies)) >= 1
    assert all(name.startswith("t.MD") for name in copies)
    for mark in range(20):
        made.freeze(f"mark-{mark}")
    assert len([p for p in tmp_path.iterdir() if "ring" not in p.name]) == ring.COPIES
