"""What workers do in the tests of the sweep, in place of `tasks`: no library, and every way to end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from mlxdiag.audit.across.cell import Cell, Row
from mlxdiag.audit.across.tasks import Described

HERE = "tests.audit.across.standin"


def preload(deadly: dict[str, str] | None = None) -> Iterator[str]:
    yield ""


def describe(device: str | None) -> Iterator[Any]:
    yield Described(
        both=("dies", "exits", "good", "ours", "raises", "refuses", "slow", "unbuilt"),
        apart={"lonely": ("mlx-lm", "mlx-lm has no family lonely"), "wrapper": ("", "wraps good")},
        libraries={"mlx-lm": "1", "transformers": "2"},
        device="cpu",
        roots={},
    )


def compare(family: str, scenarios: list[str], seed: int, device: str | None) -> Iterator[Any]:
    if family == "refuses":
        yield {
            "row": msgspec.to_builtins(Row(family=family, result="refused", library="mlx-lm", reason="no"))
        }
        return
    if family == "unbuilt":
        os.kill(os.getpid(), signal.SIGSEGV)
    if family == "ours":
        raise RuntimeError("our own fault")
    for scenario in scenarios:
        if scenario == "second":
            if family == "dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            if family == "exits":
                os._exit(7)
            if family == "raises":
                raise RuntimeError("our own fault")
            if family == "slow":
                time.sleep(60)
        result = "differ" if scenario == "third" and family == "good" else "agree"
        kind = "visibility" if result == "differ" else None
        cell = Cell(family=family, scenario=scenario, result=result, kind=kind, compared=3, largest=0.1)
        yield {"cell": msgspec.to_builtins(cell)}
    row = Row(family=family, result="agree", noise={"mlx-lm": 1e-6}, seconds=1.0)
    yield {"row": msgspec.to_builtins(row)}
