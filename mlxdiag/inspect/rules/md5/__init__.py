"""MD5, batch: rows that share a call."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md5.left_padding import LeftPaddingUnmasked
from mlxdiag.inspect.rules.md5.rows import AllPaddingChunk, IdleRowSampled, RowMetadataLength

MD5: tuple[type[Rule], ...] = (LeftPaddingUnmasked, RowMetadataLength, IdleRowSampled, AllPaddingChunk)
