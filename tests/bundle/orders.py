"""Orders for bundles, as the tests of the whole need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxdiag.bundle.assemble import Made, Order, make
from mlxdiag.bundle.collect.projects import GENERIC
from tests.samples.expected import FOLDER

SAMPLE = FOLDER / "gemma4-chunked-prefill.yaml"


def made(trace: Path = SAMPLE, **settings) -> Made:
    """Without a replay unless it is asked for."""
    return make(Order(**{"trace": trace, "project": GENERIC, "replay": False, **settings}))


@pytest.fixture
def key_folder(tmp_path, monkeypatch):
    """A place of its own for the key of hashes."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"
