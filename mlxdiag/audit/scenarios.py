"""The scenarios: every path by which a scheduler reaches a model. `schedules` makes their traces."""

from __future__ import annotations

from mlxdiag.audit.cell import Scenario
from mlxdiag.errors import UsageError


def _of(group: str, *named: tuple[str, str]) -> tuple[Scenario, ...]:
    return tuple(Scenario(name=name, title=title, group=group) for name, title in named)


SCENARIOS: tuple[Scenario, ...] = (
    *_of(
        "prefill",
        ("fresh-within-window", "one pass shorter than the window"),
        ("fresh-over-window", "one pass longer than the window"),
        ("chunks-below-window", "chunks shorter than the window"),
        ("chunks-equal-window", "chunks as long as the window"),
        ("chunks-above-window", "chunks longer than the window"),
        ("chunks-not-dividing", "chunks that do not divide the window"),
        ("continue-after-wrap", "a chunk after the ring has rolled over"),
        ("no-cache", "no cache at all against a cache"),
    ),
    *_of("decode", ("decode-across-window", "token by token across the window")),
)
"""In the order of the table."""

NAMES = tuple(scenario.name for scenario in SCENARIOS)


def named(name: str) -> Scenario:
    """The scenario of this name.

    Raises:
        UsageError: there is none.
    """
    found = next((scenario for scenario in SCENARIOS if scenario.name == name), None)
    if found is None:
        raise UsageError(f"no scenario {name!r}; known: {', '.join(NAMES)}")
    return found
