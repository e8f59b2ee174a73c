"""Zips as a stranger may write them."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

SYMLINK = (stat.S_IFLNK | 0o777) << 16


def written(
    path: Path, members: list[tuple[str, bytes]], mode: int = 0, method: int = zipfile.ZIP_DEFLATED
) -> Path:
    """A zip with these members, in this order, whatever their names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode
            info.compress_type = method
            archive.writestr(info, data)
    return path


def encrypted(path: Path) -> Path:
    """A zip whose member says that it is encrypted, in both of its headers."""
    written(path, [("trace.yaml", b"x" * 40)], method=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + flags] |= 1
    path.write_bytes(data)
    return path
