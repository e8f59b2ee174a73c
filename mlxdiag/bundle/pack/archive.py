"""The finished zip: sorted members, fixed times and modes, so that equal parts give equal bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

SCHEMA = "mlxdiag.bundle/1"
MANIFEST = "MANIFEST"
"""`sha256  name` a line, as `sha256sum -c` reads it, of every member but itself."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_UNIX = 3
_LEVEL = 9


def manifest(members: Mapping[str, bytes]) -> bytes:
    """The checksums of `members`."""
    lines = (f"{sum_of(data)}  {name}\n" for name, data in sorted(members.items()) if name != MANIFEST)
    return "".join(lines).encode()


def sum_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sums(listed: bytes) -> dict[str, str]:
    """Checksums by name, as a manifest lists them."""
    cells = (line.partition("  ") for line in listed.decode("utf-8", "replace").splitlines())
    return {name: digest for digest, _, name in cells}


def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive with its manifest."""
    whole = {**members, MANIFEST: manifest(members)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(whole.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _MODE
            info.create_system = _UNIX
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=_LEVEL)
    return buffer.getvalue()
