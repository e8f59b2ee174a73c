"""What a rank says of one family under one kind of splitting: a JSON object a line, appended to its file."""

from __future__ import annotations

import msgspec

TENSOR, PIPELINE = "tensor-parallel", "pipeline"
"""The kinds of splitting, by their scenarios' names."""


class Difference(msgspec.Struct, omit_defaults=True):
    """One schedule against the same schedule in a single process."""

    schedule: str
    compared: int
    max_abs: float
    tolerance: float
    positions: list[int] = []
    """Where the logits differ; a second row's positions follow on the first's."""
    margin: float | None = None
    """Top-2 margin of the single process at the first of them."""


class Seen(msgspec.Struct, omit_defaults=True):
    """What is wrong with what the probe saw in a rank, and right in a single process."""

    schedule: str
    codes: list[str]
    """Of the rules that fired, causes included; that of the sentence first."""
    sentence: str
    """What is wrong, with the step that shows it."""
    step: int | None = None
    seq: str | None = None
    layers: list[int] = []
    positions: list[int] = []
    """Of the queries that saw something else than they must."""
    where: str = ""
    """The line that made the mask or the call."""


class Told(msgspec.Struct, omit_defaults=True):
    """The last word of a rank counts; `begun` is never its last unless it died or hangs."""

    family: str
    kind: str
    state: str
    """begun, done, unsupported, skipped or failed."""
    reason: str = ""
    where: str = ""
    during: str = ""
    """What was being done when it failed: building, splitting, or the name of a schedule."""
    error: str = ""
    """Type of the exception."""
    alike: bool = False
    """Every rank failed so, and all of them go on."""
    differences: list[Difference] = []
    seen: list[Seen] = []
    judged: dict[str, int] = {}
    """By oracle, as `Cell.judged`; parity is counted in `differences`."""
    layers: int = 0
    """Layers that this rank holds."""
    weights: int = 0
    """Numbers in the parameters that this rank holds."""
    whole: int = 0
    """The same of the model in one process."""

    @property
    def final(self) -> bool:
        """Whether the rank has gone on to the next item."""
        return self.alike or self.state not in ("begun", "failed")
