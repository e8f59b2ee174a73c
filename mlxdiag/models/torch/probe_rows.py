"""Padding of the rows of a batch, which transformers keeps nowhere: its caches count tokens, padding
included, and the caller's attention mask says which are real.

What is known is kept on the cache. Only a mask on the CPU is read where nobody tells, and only while a row
may still begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlxdiag.models.events import Feeding

Real = npt.NDArray[np.bool_]
ATTRIBUTE = "_mlxdiag_rows"


class Rows:
    """Of one cache. `left` is None where the padding is not known."""

    __slots__ = ("left", "told")

    def __init__(self, left: list[int] | None = None, told: list[int] | None = None) -> None:
        self.left = left
        self.told = told
        """The same by somebody who knows; forwards are then not asked."""

    def __deepcopy__(self, _memo: Any) -> Rows:
        return Rows(self.left and list(self.left), self.told and list(self.told))

    def __reduce__(self) -> Any:
        return type(None), ()


def rows_of(cache: Any) -> Rows:
    """What is known of a cache's rows; a copy of the cache knows the same."""
    rows: Rows | None = cache.__dict__.get(ATTRIBUTE)
    if rows is None:
        rows = cache.__dict__[ATTRIBUTE] = Rows()
    return rows


def follow(
    cache: Any, cursor: int | None, batch: int, given: Any, feeding: Feeding | None
) -> list[int] | None:
    """Left padding of each row once the tokens of this forward are in; None where it is not known.

    `cursor` counts the tokens in the cache before it; `given` is the mask that the model was called with.
    """
    rows = rows_of(cache)
    if rows.told is not None and len(rows.told) == batch:
        rows.left = rows.told
        return rows.told
    left = [0] * batch if cursor == 0 else rows.left
    if left is not None and len(left) != batch:
        left = None
    told = feeding is not None and feeding.padding_known and feeding.real.shape[0] == batch
    if feeding is not None and told and left is not None:
        left = [n + _leading(feeding.real[i]) if n == cursor else n for i, n in enumerate(left)]
    elif given is None:
        # Nobody ever said that anything was padding.
        left = [0] * batch if left is None else left
    elif left is None or any(n == cursor for n in left):
        left = of_mask(given, batch) or ([0] if batch == 1 else None)
    rows.left = left
    return left


def ends(cache: Any, cursor: int | None, q: int, batch: int, given: Any) -> list[int] | None:
    """Padding at the end of each row of a forward of several tokens, by the mask that it is given. Not asked
    where somebody has told of the rows.
    """
    if given is None or cursor is None or q == 1 or rows_of(cache).told is not None:
        return None
    return behind(real_of(given, batch), range(cursor, cursor + q))


def picked(cache: Any, rows: list[int] | None) -> None:
    """The rows of a cache were taken apart or repeated; None where it is not known how."""
    known = rows_of(cache)
    known.left, known.told = _rows(known.left, rows), _rows(known.told, rows)


def repeated(cache: Any, times: int) -> None:
    """Each row of a cache now stands there `times` times, in place."""
    known = rows_of(cache)
    known.left = known.left and [n for n in known.left for _ in range(times)]
    known.told = known.told and [n for n in known.told for _ in range(times)]


def _rows(held: list[int] | None, rows: list[int] | None) -> list[int] | None:
    return None if rows is None or held is None else [held[r] for r in rows if r < len(held)]


def _leading(real: Any) -> int:
    return int(np.argmax(real)) if real.any() else len(real)


def of_mask(given: Any, batch: int) -> list[int] | None:
    """Padding in front of each row by a 2-D mask; None where there is none, or it is not on the CPU."""
    real = real_of(given, batch)
    return None if real is None else in_front(real)


def real_of(given: Any, batch: int) -> Real | None:
    """A 2-D mask [batch, columns], False for padding; None where there is none, or it is not on the CPU."""
    if getattr(given, "ndim", None) != 2 or given.shape[0] != batch or given.device.type != "cpu":
        return None
    real: Real = given.numpy().astype(bool)
    return real


def in_front(real: Real) -> list[int]:
    """Padding in front of each row."""
    return [_leading(row) for row in real]


def behind(real: Real | None, columns: range) -> list[int] | None:
    """Padding at the end of each row, among these columns; None where no row has any, or nothing tells.

    A mask may be longer than what is fed, as for a static cache: of its later columns nothing is known yet.
    """
    if real is None or real.shape[1] < columns.stop or not columns:
        return None
    fed = real[:, : columns.stop]
    # A row that is nothing but padding has it in front.
    found = [min(_leading(row[::-1]), len(columns)) if row.any() else 0 for row in fed]
    return found if any(found) else None
