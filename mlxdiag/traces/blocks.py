"""Bytes of a trace file, a block at a time: plain, compressed, or still growing."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from mlxdiag.errors import UnreadableError, UsageError

BLOCK = 1 << 16
"""Bytes. Larger ones fall out of the processor's cache before they are decoded."""
POLL_SECONDS = 0.2
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def never() -> bool:
    """The default stop condition of a followed file."""
    return False


class Blocks:
    """Iterates non-empty byte blocks of at most about BLOCK bytes each; reads once, front to back.

    `torn` turns true when a compressed file ends before its end marker.
    """

    def __init__(
        self, file: io.BufferedReader, name: str, follow: bool = False, stop: Callable[[], bool] = never
    ) -> None:
        self.name = name
        self.follow = follow and file.seekable()
        self.torn = False
        self._file = file
        self._stop = stop
        self._blocks = self._read()
        self.compressed = file.peek(4).startswith(ZSTD_MAGIC)
        if follow and self.compressed:
            raise UsageError(f"{name}: a compressed file does not grow; leave out --follow")

    @classmethod
    def open(cls, path: str | os.PathLike[str], follow: bool, stop: Callable[[], bool]) -> Blocks:
        """Raises UnreadableError where there is no file to open."""
        name = os.fspath(path)
        try:
            if os.path.isdir(name):
                raise UnreadableError(f"{name}: is a directory, not a trace file")
            return cls(open(name, "rb"), name, follow, stop)
        except FileNotFoundError:
            raise UnreadableError(f"{name}: no such file") from None
        except (OSError, ValueError) as error:
            raise UnreadableError(f"{name}: cannot be opened: {_reason(error)}") from None

    @classmethod
    def of_text(cls, text: bytes, name: str) -> Blocks:
        """Of a text in memory."""
        return cls(io.BufferedReader(io.BytesIO(text)), name)

    def close(self) -> None:
        """Close the file; harmless when already closed."""
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    def _read(self) -> Iterator[bytes]:
        try:
            if self.compressed:
                yield from self._decompressed()
            elif self.follow:
                yield from self._growing()
            else:
                while block := self._file.read1(BLOCK):
                    yield block
        except OSError as error:
            raise UnreadableError(f"{self.name}: cannot be read: {_reason(error)}") from None

    def _growing(self) -> Iterator[bytes]:
        while True:
            if block := self._file.read1(BLOCK):
                yield block
            elif self._stop():
                return
            elif os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise UnreadableError(f"{self.name}: became shorter while it was followed")
            else:
                time.sleep(POLL_SECONDS)

    def _decompressed(self) -> Iterator[bytes]:
        zstd = zstd_module()
        decoder, fed = zstd.ZstdDecompressor(), b""
        while True:
            if not fed and (decoder.eof or decoder.needs_input):
                fed = self._file.read1(BLOCK)
                if not fed:
                    self.torn = not decoder.eof
                    return
            if decoder.eof:
                decoder = zstd.ZstdDecompressor()
            try:
                block = decoder.decompress(fed, BLOCK)
            except zstd.ZstdError as error:
                raise UnreadableError(f"{self.name}: the compressed data is damaged: {error}") from None
            fed = decoder.unused_data if decoder.eof else b""
            if block:
                yield block


def zstd_module() -> Any:
    """zstd: the standard library's from Python 3.14 on, its backport before."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
