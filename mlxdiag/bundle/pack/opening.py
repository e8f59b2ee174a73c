"""Reading a bundle from a stranger: into memory only, within limits, and nothing that is not a plain file."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mlxdiag.bundle.pack import archive
from mlxdiag.errors import UnreadableError

MOST_MEMBERS = 256
LARGEST_MEMBER = 64 << 20
LARGEST_BUNDLE = 192 << 20
"""Bytes, unpacked."""
LARGEST_RATIO = 300
"""Of unpacked to packed size, for members above `SMALL`. Traces of equal steps shrink to a hundredth."""
SMALL = 1 << 20
LONGEST_NAME = 200
TRACE = "trace.yaml"

_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BLOCK = 1 << 16


def is_bundle(path: str | Path) -> bool:
    """Whether the file begins as a zip does; false for what cannot be opened."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == _MAGIC
    except (OSError, ValueError):
        return False


def read(path: str | Path) -> dict[str, bytes]:
    """Every member, by name. Nothing is written.

    Raises:
        UnreadableError: no zip, or one that no mlxdiag wrote: with a path that climbs out, a link, a member
            twice, an encrypted or an oversized one, or a checksum that does not fit its content.
    """
    name = str(path)
    try:
        with zipfile.ZipFile(path) as opened:
            infos = opened.infolist()
            _require_count(name, infos)
            for info in infos:
                for reason in _reasons(info):
                    raise UnreadableError(f"{name}: refused: {_shown(info.filename)} {reason}")
            return _contents(name, opened, infos)
    except FileNotFoundError:
        raise UnreadableError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise UnreadableError(f"{name}: is a directory, not a bundle") from None
    except zipfile.BadZipFile as error:
        raise UnreadableError(f"{name}: not a zip, or a damaged one: {error}") from None
    except (OSError, zlib.error, NotImplementedError, ValueError, RuntimeError) as error:
        raise UnreadableError(f"{name}: cannot be read: {error}") from None


def trace_of(path: str | Path) -> bytes:
    """The trace in a bundle. Raises UnreadableError as `read` and `trace_in` do."""
    return trace_in(read(path), path)


def trace_in(members: Mapping[str, bytes], path: str | Path) -> bytes:
    """The trace among the members of the bundle at `path`.

    Raises:
        UnreadableError: there is none, or it is not the one that was packed.
    """
    if TRACE not in members:
        raise UnreadableError(f"{path}: holds no {TRACE}, so it is not a bundle of mlxdiag")
    require_sums(members, (TRACE,), path)
    return members[TRACE]


def require_sums(members: Mapping[str, bytes], names: Iterable[str], path: str | Path) -> None:
    """Hold these members to the bundle's own checksums; one that is not there is passed over.

    Raises:
        UnreadableError: one was changed after the bundle was made, or has no checksum.
    """
    listed = archive.sums(members.get(archive.MANIFEST, b""))
    for name in names:
        if name not in members or listed.get(name) == archive.sum_of(members[name]):
            continue
        reason = (
            "was changed after the bundle was made" if name in listed else "has no checksum in its MANIFEST"
        )
        raise UnreadableError(f"{path}: {name} {reason}; mlxdiag verify {path} tells what else does not fit")


def _require_count(name: str, infos: list[zipfile.ZipInfo]) -> None:
    if len(infos) > MOST_MEMBERS:
        raise UnreadableError(f"{name}: refused: {len(infos)} members, a bundle has at most {MOST_MEMBERS}")
    seen: set[str] = set()
    for info in infos:
        plain = info.filename.casefold()
        if plain in seen:
            raise UnreadableError(f"{name}: refused: {_shown(info.filename)} is in it twice")
        seen.add(plain)
    total = sum(info.file_size for info in infos)
    if total > LARGEST_BUNDLE:
        raise UnreadableError(f"{name}: refused: {total} bytes unpacked, more than {LARGEST_BUNDLE}")


def _reasons(info: zipfile.ZipInfo) -> Iterator[str]:
    """Why a member is refused; its name is judged as it stands in the file."""
    name = info.filename
    parts = name.split("/")
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or not name.isascii():
        yield "has a name that no bundle has"
    if name.startswith("/") or "\\" in info.orig_filename or ":" in name or ".." in parts:
        yield "climbs out of the folder"
    if "\0" in info.orig_filename:
        yield "hides a part of its name"
    if name.endswith("/") or "" in parts or "." in parts:
        yield "is no plain file"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        yield "is a link or a device" if kind != stat.S_IFDIR else "is a folder"
    if info.flag_bits & _ENCRYPTED:
        yield "is encrypted"
    if info.compress_type not in _METHODS:
        yield f"is packed by method {info.compress_type}, which no bundle uses"
    if info.file_size > LARGEST_MEMBER:
        yield f"has {info.file_size} bytes, more than {LARGEST_MEMBER}"
    if info.file_size > SMALL and info.file_size > LARGEST_RATIO * max(info.compress_size, 1):
        yield f"unpacks to {info.file_size // max(info.compress_size, 1)} times its size"


def _contents(name: str, opened: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Read with a limit of its own: what a header says of a size need not be true."""
    members: dict[str, bytes] = {}
    left = LARGEST_BUNDLE
    for info in infos:
        blocks = []
        with opened.open(info) as file:
            while block := file.read(min(_BLOCK, left + 1)):
                blocks.append(block)
                left -= len(block)
                if left < 0:
                    raise UnreadableError(f"{name}: refused: more than {LARGEST_BUNDLE} bytes unpacked")
        members[info.filename] = b"".join(blocks)
    return members


def _shown(name: str) -> str:
    return repr(name[:80])
