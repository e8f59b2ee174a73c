"""What a zip holds beside the content of its members: in a bundle nothing, so nothing searches it."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlxdiag.bundle.pack.opening import LARGEST_MEMBER

_LOCAL, _CENTRAL, _END = 30, 46, 22
"""Bytes of a member's header, of its line in the directory, and of what closes the zip; texts not counted."""
_HEADER = "<IHHHHHIIIHH"
"""Signature, version, flags, method, time, date, checksum, both sizes, lengths of name and extra field."""
_EXTRA = 28
"""Where in a member's header the length of its extra field stands."""


def beside(path: str | Path) -> Iterator[str]:
    """Comments, extra fields, and bytes that belong to no member, in words.

    The zip must be one that `opening.read` takes: then its names are plain, and its lengths within limits.
    Source: APPNOTE.TXT of the zip format, sections 4.3.7, 4.3.12 and 4.3.16.
    """
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        if archive.comment:
            yield "the zip has a comment"
        at, loose, directory = 0, False, _END + len(archive.comment)
        for info in sorted(archive.infolist(), key=lambda one: one.header_offset):
            header, extra, data = _member(file, info)
            if info.comment:
                yield f"{info.filename} has a comment"
            if info.extra or extra:
                yield f"{info.filename} has an extra field"
            if not _agree(header, info):
                yield f"{info.filename} has two headers that differ"
            if not _is_all(data, info):
                yield f"{info.filename} has more packed into it than it shows"
            loose = loose or info.header_offset != at
            at += _LOCAL + len(info.filename) + extra + info.compress_size
            directory += _CENTRAL + len(info.filename) + len(info.extra) + len(info.comment)
        if loose or at + directory != file.seek(0, os.SEEK_END):
            yield "the zip has bytes before, between or behind its members"


def _member(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[bytes, int, bytes]:
    """The member's own header, the length of its extra field, and its content as it is packed."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL)
    extra = int.from_bytes(header[_EXTRA:], "little")
    file.seek(len(info.filename) + extra, os.SEEK_CUR)
    return header, extra, file.read(min(info.compress_size, LARGEST_MEMBER))


def _agree(header: bytes, info: zipfile.ZipInfo) -> bool:
    """Whether a reader that goes from member to member is told what one of the directory is told."""
    _, _, flags, method, _, _, crc, packed, size, name, _ = struct.unpack(_HEADER, header)
    own = (flags, method, crc, packed, size, name)
    return own == (
        info.flag_bits, info.compress_type, info.CRC, info.compress_size, info.file_size, len(info.filename)
    )  # fmt: skip


def _is_all(data: bytes, info: zipfile.ZipInfo) -> bool:
    """Whether nothing follows what a reader is shown."""
    if info.compress_type == zipfile.ZIP_STORED:
        return len(data) == info.file_size
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        shown = inflater.decompress(data, info.file_size + 1)
    except zlib.error:
        return False
    return len(shown) == info.file_size and inflater.eof and not inflater.unused_data
