"""What was tried around the fault, and what came of it."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = "mlxdiag.controls/1"

EDGE = "chunk-edge"
"""Name of the control that is no run of its own: where two neighbours part."""
PASSES, FAILS, OTHER, NOT_TRIED = "passes", "fails", "fails differently", "not tried"


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """One variation of the schedule."""

    name: str
    """Stable, for scripts: `single-pass`, `chunk-64`, `float32`."""
    what: str
    """In words; `{}` stands for `value`."""
    value: str = ""
    """Of several controls that differ in one thing: that thing."""
    result: str
    """passes, fails (the same fault, or any where there was none), fails differently, or not tried."""
    codes: tuple[str, ...] = ()
    """Rules that fired, from warning up."""
    reason: str = ""
    """Of a control that was not tried, or what the numbers say."""


def in_words(control: Control, *more: Control) -> str:
    """`what` with its value; with those of others of the same kind, where there are any."""
    return control.what.replace("{}", ", ".join(one.value for one in (control, *more)))


RAN_IN = "float32"
"""What every run computes in: a fault of masks and caches shows in it without any rounding beside it."""


def document(controls: tuple[Control, ...], dtype: str | None = None) -> dict[str, Any]:
    """`controls.json`. `dtype`: what the recorded model computes in, where that is known."""
    told = [{**msgspec.to_builtins(one), "what": in_words(one)} for one in controls]
    return {"schema": SCHEMA, "dtype": {"recorded": dtype, "tried": RAN_IN}, "controls": told}
