from __future__ import annotations

import gzip

import pytest

from mlxdiag.bundle import inputs
from mlxdiag.errors import UnreadableError
from tests.bundle.orders import SAMPLE


def test_of_a_long_trace_the_end_and_its_models_are_kept(monkeypatch):
    whole = inputs.read_trace(SAMPLE).trace.entries
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 4)
    source = inputs.read_trace(SAMPLE)
    assert source.trace.entries == [whole[0], *whole[-4:]]
    assert source.notes == (f"of {len(whole)} entries the last 4 are here",)


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
