"""The masks that schedulers build, as boolean arrays: True where a query may attend.

Notation: `q` new tokens in the call, `off` the offset the builder was given, `W` the window, which counts the
query itself. Column j of a mask of key length m stands for the key that the builder believes to be there.
Predicates after mlxcel's builders of the same purpose (`create_causal_mask`, `..._with_window`,
`..._with_window_full`, `create_sliding_window_prefill_mask`, `create_padded_prefill_mask`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]

BUILDERS = ("causal", "padded", "window", "capped")


def causal(q: int, off: int) -> Bool:
    """`[q, off + q]`: key j is seen by query i when j <= i + off."""
    mask: Bool = np.tri(q, off + q, off, dtype=bool)
    return mask


def window(q: int, off: int, width: int) -> Bool:
    """`[q, off + q]`: causal, and no key older than `width - 1` before the query."""
    mask: Bool = causal(q, off) & ~np.tri(q, off + q, off - width, dtype=bool)
    return mask


def capped(q: int, off: int, width: int) -> Bool:
    """`[q, min(off + q, width)]`: the window mask cut to its last `width` columns.

    Columns are taken for the newest `width` keys, without a lower bound; once q > width the first
    q - width queries see no key at all.
    """
    if off + q <= width:
        return window(q, off, width)
    mask: Bool = np.tri(q, width, width - q, dtype=bool)
    return mask


def padded(q: int, off: int, real: int) -> Bool:
    """`[q, off + q]`: causal, and the columns of the q - real padding tokens are blocked."""
    return causal(q, off) & (np.arange(off + q) < off + real)[None, :]


def build(builder: str, q: int, off: int, *, real: int | None = None, width: int | None = None) -> Bool:
    """The mask of one of BUILDERS.

    Raises:
        ValueError: unknown builder, or a window builder without a width.
    """
    if builder == "causal":
        return causal(q, off)
    if builder == "padded":
        return padded(q, off, q if real is None else real)
    if builder not in BUILDERS:
        raise ValueError(f"mask builder {builder!r} is unknown; known: {', '.join(BUILDERS)}")
    if width is None:
        raise ValueError(f"mask builder {builder!r} needs a window")
    return window(q, off, width) if builder == "window" else capped(q, off, width)


def shape(builder: str, q: int, off: int, *, width: int | None = None) -> tuple[int, int]:
    """The shape that `build` gives, without building anything."""
    if builder == "capped" and width is not None and off + q > width:
        return q, width
    return q, off + q


def guess_builder(
    q: int, m: int, off: int | None, *, padding: bool, width: int | None
) -> tuple[str, int] | None:
    """Which builder makes a `[q, m]` mask, and with which offset; None when none of them does.

    A caller's mask is taken as causal before it is taken as capped, since schedulers do not know windows.
    """
    plain = "padded" if padding else "causal"
    if off is not None and m == off + q:
        return plain, off
    if width is not None and m == width and q != m:
        return "capped", max(m - q, width) if off is None else off
    if width is not None and off is not None and m == min(off, width - 1) + q:
        return "window", min(off, width - 1)
    if off is None and m >= q:
        return plain, m - q
    return None
