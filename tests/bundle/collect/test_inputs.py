from __future__ import annotations

import gzip
import os

import pytest

from mlxdiag.bundle.collect import inputs
from mlxdiag.errors import UnreadableError, UsageError
from tests.bundle.orders import SAMPLE


def steps(source) -> list[int | None]:
    return [entry.step for entry in source.trace.entries]


def read(path=SAMPLE, seen=None):
    return inputs.read_trace(path, lambda _: (seen if seen is not None else []).append)


def test_of_a_long_trace_what_lies_around_the_fault_is_kept(monkeypatch):
    whole = read()  # a model, 13 steps, an end
    assert inputs.excerpt(whole, SAMPLE, 3) is whole
    every = steps(whole)
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 5)
    monkeypatch.setattr(inputs, "EXCERPT", 4)
    seen: list = []
    long = read(seen=seen)
    assert [entry.step for entry in seen] == list(long.steps) == every
    assert long.trace.entries == []
    assert steps(inputs.excerpt(long, SAMPLE, 3)) == [None, 1, 2, 3]
    assert steps(inputs.excerpt(long, SAMPLE, 8)) == [None, 6, 7, 8, 9]
    assert steps(inputs.excerpt(long, SAMPLE, None))[0] is None
    assert steps(inputs.excerpt(long, SAMPLE, None))[1:] == every[-4:]
    assert "of 15 entries 4 are here, from number 7 on" in inputs.excerpt(long, SAMPLE, 8).notes


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="write it to a file first"):
        read(tmp_path / "pipe")


def test_a_packed_log_and_one_that_is_not_there_are_errors(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"INFO"))
    with pytest.raises(UnreadableError, match="compressed"):
        inputs.read_log(tmp_path / "a.gz")
    with pytest.raises(UnreadableError, match="cannot be read"):
        inputs.read_log(tmp_path / "none.log")


def test_the_fingerprint_follows_every_input(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1")
    b.write_text("2")
    assert inputs.fingerprint([a, b]) == inputs.fingerprint([a, b]) != inputs.fingerprint([b, a])
    b.write_text("3")
    assert inputs.fingerprint([a, b]) != inputs.fingerprint([a, a])
