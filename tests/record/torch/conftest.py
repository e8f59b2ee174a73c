"""A tiny model for each module, and recordings of what it does in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Trace
from tests.record.torch import models


@pytest.fixture(scope="module")
def model() -> Any:
    return models.build()


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Trace]:
    """The trace of what a function does; inspect must find it healthy, and every call judged."""

    def record(work: Callable[[], Any], *, tokens: bool = False) -> Trace:
        with mlxdiag.recording(tmp_path / "t.yaml", tokens=tokens) as path:
            work()
        trace = read(path)
        report = inspect_trace(trace)
        assert report.findings == []
        assert report.summary.not_observed == 0
        return trace

    return record
