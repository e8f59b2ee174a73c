from __future__ import annotations

import struct
import tracemalloc
import zipfile

import pytest

from mlxdiag.bundle.pack import opening
from mlxdiag.bundle.pack.archive import manifest, pack
from mlxdiag.errors import UnreadableError
from tests.bundle.zips import SYMLINK, encrypted, written


def refusal(path) -> str:
    with pytest.raises(UnreadableError) as refused:
        opening.read(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_was_packed_is_read_back(tmp_path):
    members = {"trace.yaml": b"steps:\n", "logs/1.log": b"INFO\n"}
    (tmp_path / "b.zip").write_bytes(pack(members))
    read = opening.read(tmp_path / "b.zip")
    assert {name: read[name] for name in members} == members
    assert opening.trace_of(tmp_path / "b.zip") == b"steps:\n"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/etc/passwd",
        "C:/evil",
        "..\\evil",
        "a//b",
        "./a",
        "a/",
        "\u202egpj.exe",
        "n" * 201,
    ],
)
def test_names_that_climb_out_or_hide_are_refused(name, tmp_path):
    said = refusal(written(tmp_path / "b.zip", [("trace.yaml", b""), (name, b"x")]))
    assert "refused" in said
    assert list(tmp_path.iterdir()) == [tmp_path / "b.zip"]


def test_links_are_refused(tmp_path):
    assert "is a link" in refusal(written(tmp_path / "b.zip", [("trace.yaml", b"/etc/passwd")], SYMLINK))


def test_a_member_twice_is_refused_even_in_another_case(tmp_path):
    assert "twice" in refusal(written(tmp_path / "b.zip", [("trace.yaml", b"a"), ("Trace.yaml", b"b")]))


def test_an_encrypted_member_is_refused(tmp_path):
    assert "refused: 'trace.yaml' is encrypted" in refusal(encrypted(tmp_path / "b.zip"))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = written(tmp_path / "b.zip", [("trace.yaml", b"\0" * (8 << 20))])
    assert "times its size" in refusal(bomb)


def test_an_oversized_member_is_refused_and_so_is_the_sum(tmp_path, monkeypatch):
    path = written(tmp_path / "b.zip", [("a", b"1" * 600), ("b", b"2" * 600)], method=zipfile.ZIP_STORED)
    monkeypatch.setattr(opening, "LARGEST_MEMBER", 500)
    assert "more than 500" in refusal(path)
    monkeypatch.setattr(opening, "LARGEST_MEMBER", 1000)
    monkeypatch.setattr(opening, "LARGEST_BUNDLE", 1000)
    assert "1200 bytes unpacked" in refusal(path)


def test_a_name_that_hides_its_end_is_refused(tmp_path):
    path = written(tmp_path / "b.zip", [("trace.yaml_exe", b"")])
    path.write_bytes(path.read_bytes().replace(b"trace.yaml_exe", b"trace.yaml\0exe"))
    assert "hides a part of its name" in refusal(path)


def test_a_size_that_a_header_belittles_is_not_unpacked(tmp_path):
    path = written(tmp_path / "b.zip", [("a", b"1" * (16 << 20))])
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(mark) + at, 10)
    path.write_bytes(data)
    tracemalloc.start()
    assert "damaged" in refusal(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20


def test_too_many_members_are_refused(tmp_path):
    many = [(f"f{i}", b"") for i in range(opening.MOST_MEMBERS + 1)]
    assert "at most" in refusal(written(tmp_path / "b.zip", many))


def test_another_method_is_refused(tmp_path):
    assert "method" in refusal(written(tmp_path / "b.zip", [("a", b"x" * 99)], method=zipfile.ZIP_LZMA))


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x03\x04 but then nothing"])
def test_what_is_no_zip_is_told_so(data, tmp_path):
    (tmp_path / "b.zip").write_bytes(data)
    assert "not a zip" in refusal(tmp_path / "b.zip")


def test_a_damaged_member_is_told_so(tmp_path):
    path = written(tmp_path / "b.zip", [("trace.yaml", b"1" * 400)], method=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"1111", b"1211", 1))
    assert "damaged" in refusal(path)


def test_no_file_and_a_folder(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.zip")
    assert refusal(tmp_path).endswith(": is a directory, not a bundle")
    assert not opening.is_bundle(tmp_path)


def test_a_zip_without_a_trace_is_no_bundle(tmp_path):
    written(tmp_path / "b.zip", [("photo.jpg", b"x")])
    with pytest.raises(UnreadableError, match=r"holds no trace\.yaml"):
        opening.trace_of(tmp_path / "b.zip")


def test_a_trace_that_was_changed_or_has_no_checksum_is_refused(tmp_path):
    members = {"trace.yaml": b"steps:\n", "logs/1.log": b""}
    sums = manifest(members)
    with pytest.raises(
        UnreadableError, match=r"trace\.yaml was changed after the bundle was made; mlxdiag verify b"
    ):
        opening.trace_in({**members, "trace.yaml": b"steps: []\n", "MANIFEST": sums}, "b.zip")
    with pytest.raises(UnreadableError, match=r"trace\.yaml has no checksum"):
        opening.trace_in(members, "b.zip")
    assert opening.trace_in({**members, "logs/1.log": b"changed", "MANIFEST": sums}, "b.zip") == b"steps:\n"
    with pytest.raises(UnreadableError, match=r"logs/1\.log was changed"):
        opening.require_sums({**members, "logs/1.log": b"1", "MANIFEST": sums}, ("logs/1.log",), "b.zip")
