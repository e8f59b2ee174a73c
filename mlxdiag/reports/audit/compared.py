"""What differs from another copy of the library, in the same words in every format."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.audit.faults.against import Comparison


def lines(comparison: Comparison) -> Iterator[str]:
    """A line for every difference between two copies, and what is the same."""
    other = ", ".join(f"{name} {version}" for name, version in comparison.other.items() if name != "mlxdiag")
    yield (
        f"against {other}: {len(comparison.broke)} broke, {len(comparison.mended)} mended, "
        f"{len(comparison.skipped)} skipped on one side, "
        f"{len(comparison.differs)} otherwise different, {comparison.same} the same"
    )
    for word, changes in (
        ("broke", comparison.broke),
        ("mended", comparison.mended),
        ("skipped", comparison.skipped),
        ("differs", comparison.differs),
    ):
        for change in changes:
            move = f"{change.before or 'not there'} -> {change.after or 'not there'}"
            reason = f": {change.reason}" if change.reason else ""
            side = "there" if change.before == "skipped" else "here"
            skip = f"; skipped {side}: {change.skip}" if change.skip else ""
            yield f"{word:8} {change.family}/{change.scenario}  {move}{reason}{skip}"
    for word, faults in (
        ("only here", comparison.new_faults),
        ("only there", comparison.gone_faults),
        ("in both", comparison.same_faults),
    ):
        if faults:
            yield f"faults {word}: {', '.join(faults)}"
