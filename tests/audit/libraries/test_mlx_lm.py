"""mlx-lm under the audit: whose fault it is that a family cannot be run."""

import importlib.util

import pytest

from mlxdiag.audit.judge.judge import audit_family
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import library, zoo


@pytest.mark.skipif(importlib.util.find_spec("hf_olmo") is not None, reason="hf_olmo is installed")
def test_a_package_that_is_missing_is_no_fault_of_the_library():
    (cell,) = audit_family("olmo", [named("fresh-over-window")])
    assert cell.result == "skipped"
    assert "needs the package hf_olmo" in cell.reason


def test_a_family_that_the_library_breaks_crashes_where_it_does(monkeypatch):
    found = library.Broken("family llama cannot be imported: KeyError", where="mlx_lm/models/llama.py:3")
    monkeypatch.setattr(zoo, "broken", lambda family: found)
    (cell,) = audit_family("llama", [named("fresh-over-window")])
    assert (cell.result, cell.reason, cell.where) == ("crash", found.reason, found.where)
