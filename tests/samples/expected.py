"""What each shipped sample is about, from the public reports it retells; faults and their causes, by code."""

from __future__ import annotations

from pathlib import Path

import msgspec

FOLDER = Path(__file__).parents[2] / "traces"


class Sample(msgspec.Struct, frozen=True):
    """Expectations of one faulty sample; its healthy twin expects nothing at all."""

    inspected: set[str]
    """Codes that `inspect` must find, causes included."""
    replayed: set[str]
    """Codes that a replay must find, causes included."""
    crash: str | None = None
    """Part of the error text that the replay must end with."""
    empty: int = 0
    """Queries without a key, over the whole replay."""
    benign: bool = False
    """Attention is right all the same: visibility and parity are clean under the recorded policy."""


SAMPLES = {
    "gemma4-chunked-prefill": Sample(
        {"MD101", "MD104", "MD105", "MD203", "MD206", "MD404", "MD601"},
        {"MD101", "MD104", "MD105", "MD203", "MD206", "MD404", "MD304", "MD305", "MD402"},
    ),
    "gemma4-padding-left-behind": Sample(
        {"MD203", "MD206", "MD404"}, {"MD203", "MD206", "MD404", "MD304", "MD305", "MD402"}
    ),
    "gemma4-speculative-verify": Sample(set(), set(), benign=True),
    "gpt-oss-one-pass": Sample(
        {"MD101", "MD107", "MD901"}, {"MD101", "MD107", "MD901"}, crash="Shapes (298,128) and (1,4,298,298)"
    ),
    "gemma3-one-pass": Sample(
        {"MD101", "MD107", "MD401", "MD602"},
        {"MD101", "MD107", "MD301", "MD302", "MD305", "MD401", "MD402"},
        empty=487,
    ),
    "gemma3n-chunked": Sample(
        {"MD101", "MD107", "MD602"},
        {"MD101", "MD107", "MD301", "MD302", "MD305", "MD401", "MD402"},
        empty=512,
    ),
    "qwen3-key-cap": Sample(
        {"MD102", "MD106", "MD901"}, {"MD102", "MD106", "MD901"}, crash="Shapes (512,2048) and (1,4,512,1536)"
    ),
    "gemma4-clamped-continuation": Sample({"MD201"}, {"MD201", "MD302", "MD305", "MD402"}),
    "gemma3-decode-growth": Sample(
        {"MD102", "MD105", "MD901"}, {"MD102", "MD105", "MD901"}, crash="Shapes (7,563) and (1,4,7,308)"
    ),
    "gemma4-band-missing": Sample({"MD108"}, {"MD108", "MD302", "MD402"}),
}

RECORDED = ("mlx-lm-server", "transformers-serve")
"""Recordings of real programs that did nothing wrong: as clean as a twin, without a sample beside them."""

SHAPES = {
    "gemma4-chunked-prefill": {5: {"sliding": (160, 671), "full": (160, 2208)}},
    "gemma4-padding-left-behind": {6: {"sliding": (None, 512), "full": (None, 2209)}},
    "gemma4-speculative-verify": {2: {"sliding": (9, 10)}},
    "gpt-oss-one-pass": {1: {"sliding": (128, 298)}},
    "gemma3-one-pass": {1: {"sliding": (1024, 1511)}},
    "gemma3n-chunked": {2: {"sliding": (512, 1536)}},
    "qwen3-key-cap": {4: {"full": (2048, 1536)}},
    "gemma4-clamped-continuation": {2: {"sliding": (512, 512)}},
    "gemma3-decode-growth": {3: {"sliding": (563, 308)}},
    "gemma4-band-missing": {1: {"sliding": (700, 700), "full": (700, 700)}},
}
"""Numbers of the reports: by step and family, the mask's key axis and the returned keys."""
