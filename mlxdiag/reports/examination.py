"""What `mlxdiag doctor` found, for people: versions, devices tried, families, and what to install."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlxdiag.reports.escape import log_line, printable

if TYPE_CHECKING:
    from mlxdiag.models.doctor import Backend, Examination


def text(found: Examination) -> str:
    """A line per fact; each thing that does not work says why, and what to do where something can be done."""
    return "\n".join(log_line(printable(line)) for line in _lines(found)) + "\n"


def _lines(found: Examination) -> Iterator[str]:
    yield f"Python {found.python} on {found.system}"
    yield "  ".join(f"{name} {version}" for name, version in found.libraries.items())
    for backend in found.backends:
        yield ""
        yield from _backend(backend)
    if found.families:
        yield ""
        yield f"mlx-lm: {len(found.families)} model families load: {', '.join(found.families)}"
    for family in found.missing:
        yield f"  not {family.name}: {family.reason}{_advice(family.hint)}"
    if found.transformers_families:
        yield ""
        names = ", ".join(found.transformers_families)
        yield f"transformers: {len(found.transformers_families)} model families can be replayed: {names}"


def _backend(backend: Backend) -> Iterator[str]:
    if not backend.devices:
        yield f"{backend.name}: does not work: {backend.reason}{_advice(backend.hint)}"
        return
    yield f"{backend.name}: {'works' if backend.works else 'computes on no device'}"
    for device in backend.devices:
        state = "computes" if device.works else f"does not compute: {device.reason}"
        yield f"  {device.name}: {state}{_advice(device.hint)}"


def _advice(hint: str) -> str:
    return f" (try: {hint})" if hint else ""
