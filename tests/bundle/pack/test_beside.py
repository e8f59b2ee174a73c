from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pytest

from mlxdiag.bundle.pack import opening
from mlxdiag.bundle.pack.archive import pack
from mlxdiag.bundle.pack.beside import beside
from tests.bundle.orders import made
from tests.bundle.zips import written

TEXT = b"steps:\n" * 40
BYTES = "the zip has bytes before, between or behind its members"


def told(path, data: bytes) -> list[str]:
    """Of a zip that can be opened like any other."""
    path.write_bytes(data)
    assert opening.read(path)["trace.yaml"] == TEXT
    return list(beside(path))


def zipped(**of_member: bytes) -> bytes:
    """One member, with attributes of its own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("trace.yaml")
        info.compress_type = zipfile.ZIP_DEFLATED
        for name, value in of_member.items():
            setattr(info, name, value)
        archive.writestr(info, TEXT)
    return buffer.getvalue()


def test_what_is_packed_here_has_nothing_beside_it(tmp_path):
    assert told(tmp_path / "b.zip", pack({"trace.yaml": TEXT, "logs/1.log": b"", "a.json": b"{}"})) == []
    (tmp_path / "whole.zip").write_bytes(made().data)
    assert list(beside(tmp_path / "whole.zip")) == []
    assert list(beside(written(tmp_path / "s.zip", [("a", b"x")], method=zipfile.ZIP_STORED))) == []


def test_comments_and_extra_fields_are_told(tmp_path):
    path = tmp_path / "b.zip"
    assert told(path, zipped(comment=b"by zorblax")) == ["trace.yaml has a comment"]
    assert told(path, zipped(extra=b"\x75\x78\x04\x00kiwi")) == ["trace.yaml has an extra field"]
    path.write_bytes(zipped())
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"by zorblax"
    assert told(path, path.read_bytes()) == ["the zip has a comment"]


def test_an_extra_field_at_the_member_alone_is_told(tmp_path):
    data = bytearray(zipped(extra=b"\x75\x78\x04\x00kiwi"))
    at = data.index(b"PK\x01\x02")
    data[at + 30 : at + 32] = struct.pack("<H", 0)
    del data[at + 46 + len("trace.yaml") : at + 46 + len("trace.yaml") + 8]
    data[-10:-6] = struct.pack("<I", 46 + len("trace.yaml"))
    assert told(tmp_path / "b.zip", bytes(data)) == ["trace.yaml has an extra field"]


@pytest.mark.parametrize("where", ["before", "behind", "between"])
def test_bytes_that_belong_to_no_member_are_told(where, tmp_path):
    data = zipped()
    if where == "between":
        at = data.index(b"PK\x01\x02")
        data = data[:at] + b"kiwi" + data[at:]
        data = data[:-6] + struct.pack("<I", at + 4) + data[-2:]
    else:
        data = b"kiwi" + data if where == "before" else data + b"kiwi"
    assert told(tmp_path / "b.zip", data) == [BYTES]


def test_a_member_inside_of_another_hides_no_gap(tmp_path):
    path = tmp_path / "b.zip"
    inner = written(path, [("b", b"kiwi")], method=zipfile.ZIP_STORED).read_bytes()[: 30 + 1 + 4]
    data = bytearray(written(path, [("a", inner), ("b", b"kiwi")], method=zipfile.ZIP_STORED).read_bytes())
    at = data.rindex(b"PK\x01\x02") + 42
    data[at : at + 4] = struct.pack("<I", 30 + 1)  # not behind "a", but its content
    path.write_bytes(data)
    assert opening.read(path)["b"] == b"kiwi"
    assert list(beside(path)) == [BYTES]


def test_what_is_packed_behind_the_end_of_a_member_is_told(tmp_path):
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    whole = deflater.compress(TEXT) + deflater.flush()
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    longer = deflater.compress(TEXT + b"k") + deflater.flush()
    for packed in (whole + b"kiwi", longer):
        assert told(tmp_path / "b.zip", _repacked(zipped(), packed)) == [
            "trace.yaml has more packed into it than it shows"
        ]
    assert told(tmp_path / "b.zip", _repacked(zipped(), whole)) == []


def _repacked(data: bytes, packed: bytes) -> bytes:
    """The member's packed bytes replaced, and every length and offset made to fit."""
    start, end = 30 + len("trace.yaml"), data.index(b"PK\x01\x02")
    size = struct.pack("<I", len(packed))
    head, tail = bytearray(data[:start]), bytearray(data[end:])
    head[18:22] = tail[20:24] = size
    tail[-6:-2] = struct.pack("<I", start + len(packed))
    return bytes(head) + packed + bytes(tail)


@pytest.mark.parametrize("at", [6, 14, 18, 22])
def test_a_member_whose_two_headers_differ_is_told(at, tmp_path):
    """Flags, checksum and sizes: a reader that goes from member to member believes the first of the two."""
    data = bytearray(zipped())
    data[at] ^= 0x08
    assert "trace.yaml has two headers that differ" in told(tmp_path / "b.zip", bytes(data))


def test_a_member_with_its_sizes_behind_it_is_told(tmp_path):
    class Stream(io.BytesIO):
        """Cannot go back, so the sizes are written behind the content."""

        def seek(self, *where: int) -> int:
            raise OSError

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.yaml", TEXT)
    assert BYTES in told(tmp_path / "b.zip", stream.getvalue())
