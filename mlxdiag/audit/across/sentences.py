"""What two runs differ in, as a sentence with the numbers in it."""

from __future__ import annotations

from collections.abc import Sequence

from mlxdiag.audit.across.cell import Kind
from mlxdiag.audit.across.compared import Compared
from mlxdiag.audit.across.meaning import other_keys
from mlxdiag.audit.across.parting import Parting
from mlxdiag.inspect.rules.md4.parity import spans


def sentence(
    compared: Compared, parting: Parting | None, libraries: tuple[str, str], kind: Kind | None
) -> str:
    """What differs, in one sentence with the numbers in it."""
    first = compared.first
    assert first is not None
    opening = (
        f"step {first.step} ({first.phase}): logits part at position {first.position}, "
        f"by up to {compared.largest:.2g} of their spread"
    )
    unlike = other_keys(compared)
    if kind == "visibility" and unlike is not None:
        sides = zip(libraries, (unlike.first, unlike.second), strict=True)
        seen = ", ".join(f"{name} sees {span(positions)}" for name, positions in sides)
        return f"{opening}; layer {unlike.layer}, position {unlike.position}: {seen}"
    if parting is None:
        return f"{opening}; nothing inside could be compared"
    where = f"layer {parting.layer}" if parting.layer is not None else "outside of the layers"
    part = parting.part or "the layer"
    named = part if parting.end == "out" else f"{part} ({parting.end})"
    after = f", after {parting.agreed} agreed" if parting.agreed else ""
    return f"{opening}; {where}: first in {named}{after} (by {parting.by:.2g}, position {parting.position})"


def span(positions: Sequence[int]) -> str:
    """`1-8`; holes as `0-3, 6-8`."""
    return spans(ends(positions))


def ends(positions: Sequence[int]) -> list[int]:
    """First and last of each run of ascending positions, in turns."""
    found: list[int] = []
    for at in positions:
        if found and at == found[-1] + 1:
            found[-1] = at
        else:
            found += [at, at]
    return found
