"""Schedules of what transformers alone has: static and quantised caches, a crop behind a crop."""

from __future__ import annotations

from collections.abc import Mapping

from mlxdiag.audit.schedules import batches, schedules
from mlxdiag.audit.schedules.script import Schedule, Script, Sizes


def crop_after_crop(script: Script, sizes: Sizes) -> None:
    """What a second crop takes back is older than what came since the first."""
    script.feed(2 * sizes.window)
    script.feed(4, phase="verify")
    script.cut(2, phase="rollback")
    script.decode()
    script.cut(4, phase="rollback")
    script.feed(3)
    script.decode()


def right_padding_scored(script: Script, sizes: Sizes) -> None:
    """One forward, as in scoring and training; the library warns of generating behind it."""
    script.batch(batches.lengths(sizes, sizes.kv_heads + 1))


def rows_leave(script: Script, sizes: Sizes) -> None:
    """The longest row leaves: those that stay all keep padding in front of them."""
    lengths = batches.lengths(sizes, 3)
    script.batch(lengths, left=True)
    script.decode(1, *lengths)
    stay = tuple(lengths)[1:]
    script.event("filter", *stay)
    script.batch(dict.fromkeys(stay, sizes.window // 2))
    script.decode(2, *stay)


def static_left_padding(script: Script, sizes: Sizes) -> None:
    """Past the window in the first forward, and again by several tokens at once."""
    batches.left_padding_as_heads(script, sizes)


def static_trim(script: Script, sizes: Sizes) -> None:
    script.feed(sizes.window - 2)
    script.cut(3)
    script.feed(sizes.window // 2)
    script.decode(2)


def quantized(script: Script, sizes: Sizes) -> None:
    """The first forward sees its keys as they are; everything later sees them rounded."""
    script.feed(sizes.window + 3)
    script.event("quantize")
    script.decode(2)
    script.feed(sizes.window // 2)
    script.decode()


STATIC: Mapping[str, Schedule] = {
    "static-fresh-over-window": schedules.fresh_over_window,
    "static-chunks": schedules.chunks_not_dividing,
    "static-chunks-above-window": schedules.chunks_above_window,
    "static-continue-after-wrap": schedules.continue_after_wrap,
    "static-decode-across-window": schedules.decode_across_window,
    "static-left-padding": static_left_padding,
    "static-trim": static_trim,
}
QUANTIZED: Mapping[str, Schedule] = {"quantized-cache": quantized}
TORCH: Mapping[str, Schedule] = {
    "crop-after-crop": crop_after_crop,
    "right-padding-scored": right_padding_scored,
    "rows-leave": rows_leave,
    **STATIC,
    **QUANTIZED,
}
