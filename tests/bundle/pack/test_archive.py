from __future__ import annotations

import hashlib
import io
import zipfile

from mlxdiag.bundle.pack.archive import MANIFEST, manifest, pack

MEMBERS = {"b.json": b"{}", "a.txt": b"abc" * 100, "logs/1.log": b""}


def test_equal_parts_give_equal_bytes_whatever_their_order():
    assert pack(MEMBERS) == pack(dict(reversed(MEMBERS.items())))
    assert pack(MEMBERS) != pack({**MEMBERS, "b.json": b"[]"})


def test_members_are_sorted_and_carry_no_time_and_no_owner():
    with zipfile.ZipFile(io.BytesIO(pack(MEMBERS))) as archive:
        infos = archive.infolist()
    assert [info.filename for info in infos] == sorted([*MEMBERS, MANIFEST])
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in infos} == {0o100644}
    assert all(info.extra == b"" and info.comment == b"" for info in infos)


def test_the_manifest_is_what_sha256sum_prints():
    expected = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(MEMBERS.items())
    )
    assert manifest(MEMBERS).decode() == expected
    assert manifest({**MEMBERS, MANIFEST: b"old"}).decode() == expected
