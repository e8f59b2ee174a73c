"""Bytes of plain and compressed files."""

from __future__ import annotations

import io
import os
from pathlib import Path

from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.traces.blocks import BLOCK, Blocks, never


def of(data: bytes) -> Blocks:
    return Blocks(io.BufferedReader(io.BytesIO(data)), "x")  # type: ignore[type-var, arg-type, unused-ignore]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=500), min_size=1, max_size=4))
def test_frames_written_one_after_the_other_are_one_text(parts: list[bytes]) -> None:
    blocks = of(b"".join(map(zstd.compress, parts)))
    assert b"".join(blocks) == b"".join(parts)
    assert not blocks.torn


def test_well_packed_file_comes_in_bounded_pieces() -> None:
    blocks = of(zstd.compress(bytes(50 * BLOCK)))
    sizes = [len(block) for block in blocks]
    assert sum(sizes) == 50 * BLOCK
    assert max(sizes) <= BLOCK


def test_cut_compressed_file_is_torn_at_every_length() -> None:
    data = os.urandom(1000)
    packed = zstd.compress(data)
    for size in range(4, len(packed)):
        blocks = of(packed[:size])
        assert data.startswith(b"".join(blocks))
        assert blocks.torn, size


def test_compression_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(zstd.compress(b"text"))
    (tmp_path / "b.zst").write_bytes(b"text")
    for name in ("a", "b.zst"):
        blocks = Blocks.open(tmp_path / name, False, never)
        assert b"".join(blocks) == b"text"
        blocks.close()


def test_iteration_goes_on_where_it_stopped() -> None:
    blocks = of(zstd.compress(bytes(range(256)) * BLOCK))
    first = next(iter(blocks))
    assert len(first) + sum(map(len, blocks)) == 256 * BLOCK
