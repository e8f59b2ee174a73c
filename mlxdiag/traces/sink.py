"""Where a trace's bytes go: an appended file, whole pieces or nothing, optionally compressed on the way."""

from __future__ import annotations

import os
import stat
from typing import Any

from mlxdiag.errors import UsageError
from mlxdiag.traces.blocks import zstd_module

COMPRESSED = ".zst"


class Sink:
    """An open file. Every method raises UsageError, naming the file, where the system refuses."""

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self._file = file
        self._compressor: Any = None

    @classmethod
    def create(cls, path: str, force: bool) -> Sink:
        """A new file; an old one is emptied only with `force`."""
        sink = cls(path, _open(path, os.O_CREAT | (os.O_TRUNC if force or _is_device(path) else os.O_EXCL)))
        if path.endswith(COMPRESSED):
            sink._compressor = zstd_module().ZstdCompressor()
        return sink

    @classmethod
    def resume(cls, path: str, size: int) -> Sink:
        """An old file, of which the first `size` bytes are kept."""
        sink = cls(path, _open(path, 0))
        os.ftruncate(sink._file, size)
        return sink

    def put(self, data: bytes) -> None:
        """In one write(2), unless the system takes it in pieces."""
        if self._file < 0:
            raise UsageError(f"{self.path}: is closed already")
        self._write(data if self._compressor is None else self._compressor.compress(data))

    def close(self) -> None:
        """Finish and close; harmless when already closed."""
        if self._file < 0:
            return
        try:
            if self._compressor is not None:
                self._write(self._compressor.flush())
        finally:
            file, self._file = self._file, -1
            os.close(file)

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:] if written else data)
        except OSError as error:
            if written and self._compressor is None:
                # Half a line would spoil the next one, should the disk have room again.
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from None


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o666)
    except FileExistsError:
        if os.path.isdir(path):
            raise UsageError(f"{path}: is a directory") from None
        raise UsageError(f"{path}: exists already; --force overwrites it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path}: cannot be written: {reason}") from None


def _is_device(path: str) -> bool:
    """A terminal, a pipe or /dev/null exists without holding anything that could be lost."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
