"""What a program holds for one sequence or batch: the library's cache, and the mask that its caller keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlxdiag.errors import UsageError

Mask = npt.NDArray[np.bool_]


class Held:
    """The cache object and, beside it, the 2-D attention mask so far, as `generate` keeps it.

    Padding is announced before it is fed; tokens that nobody announced are real ones.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        """None where the program passes none."""
        self.mask: Mask | None = None
        """[B, total], False for padding; None before the first forward."""
        self.ahead: Mask | None = None
        """[B, k]: what was announced of the next tokens."""
        self.columns: int | None = None
        """Newest columns of the mask that the next forward is given; None: all of them."""

    @property
    def total(self) -> int:
        """Tokens fed per row, padding included."""
        return 0 if self.mask is None else self.mask.shape[1]

    @property
    def padded(self) -> bool:
        """Whether any row was ever padded."""
        return self.mask is not None and not bool(self.mask.all())

    def announce(self, columns: Mask) -> None:
        """Say which of the next tokens are padding: [B, k], False for padding."""
        self.ahead = columns if self.ahead is None else np.concatenate([self.ahead, columns], axis=1)

    def advance(self, batch: int, length: int) -> tuple[Mask | None, npt.NDArray[np.int64]]:
        """Count `length` new tokens per row. Returns the mask [B, total] (None while nothing was padded,
        when `generate` drops it too; its last `columns` where that is set) and the positions [B, length] of
        the new tokens.

        Raises UsageError for a batch of another size than the rows held.
        """
        before = np.ones((batch, 0), bool) if self.mask is None else self.mask
        new = np.ones((batch, length), bool)
        for rows in (before, *([] if self.ahead is None else [self.ahead])):
            if rows.shape[0] != batch:
                raise UsageError(f"{batch} rows are fed to a cache of {rows.shape[0]}")
        if self.ahead is not None:
            announced = self.ahead[:, :length]
            new[:, : announced.shape[1]] = announced
            self.ahead = self.ahead[:, length:] if self.ahead.shape[1] > length else None
        self.mask = np.concatenate([before, new], axis=1)
        # As generate counts them: padding has position 0.
        positions = np.where(self.mask, np.cumsum(self.mask, axis=1) - 1, 0)[:, -length:]
        columns, self.columns = self.columns, None
        if columns is not None:
            return self.mask[:, self.mask.shape[1] - columns :], positions.astype(np.int64)
        return (self.mask if self.padded else None), positions.astype(np.int64)

    def keep(self, rows: list[int]) -> None:
        """Only these rows are left, in this order."""
        self.mask = None if self.mask is None else self.mask[rows]
        self.ahead = None if self.ahead is None else self.ahead[rows]

    def cut(self, tokens: int) -> None:
        """The last `tokens` of every row were taken back."""
        if self.mask is not None and tokens:
            self.mask = self.mask[:, :-tokens]
