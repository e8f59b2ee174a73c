"""What workers do for transformers, and how they end where it cannot be used."""

import sys

import pytest

pytest.importorskip("transformers")

from mlxdiag.audit.engine import tasks
from mlxdiag.audit.engine.names import pick
from mlxdiag.audit.libraries import table
from mlxdiag.cli.audit_models import require_library
from mlxdiag.errors import UnjudgedError, UsageError


def test_another_major_version_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "6.0.1")
    with pytest.raises(UnjudgedError, match=r"transformers 6\.0\.1 is not supported \(pip install"):
        list(tasks.preload_transformers())


def test_a_missing_torch_ends_in_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(UnjudgedError, match=r'torch is not installed.*pip install "mlxdiag\[torch\]"'):
        require_library("transformers")
    require_library("mlx-lm")


def test_rows_are_families_and_their_other_implementation():
    rows = table.named("transformers").families()
    assert {"gemma3_text", "gemma3_text:eager", "gpt_oss"} <= set(rows)
    assert "gpt_oss:eager" not in rows  # eager is its own choice
    with pytest.raises(UsageError, match="no family 'gemma3_txt' \\(did you mean gemma3_text"):
        pick("family", rows, ["gemma3_txt"])


def test_a_worker_yields_the_cells_in_the_order_that_was_asked_for():
    cells = list(tasks.audit_transformers("llama", ["no-cache", "fresh-within-window"], 0, None))
    assert [(c.library, c.scenario, c.result) for c in cells] == [
        ("transformers", "no-cache", "pass"),
        ("transformers", "fresh-within-window", "pass"),
    ]
    assert all(c.noise > 0 for c in cells)
