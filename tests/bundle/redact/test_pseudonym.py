from __future__ import annotations

import hashlib

from mlxdiag.bundle.redact.pseudonym import KEY_BYTES, Pseudonyms


def test_the_key_is_drawn_once_readable_by_its_owner_alone(tmp_path):
    file = tmp_path / "deep" / "bundle.key"
    first = Pseudonyms(b"s", file).of("abc")
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes()) == KEY_BYTES
    assert Pseudonyms(b"s", file).of("abc") == first


def test_nothing_is_written_before_a_hash_is_met(tmp_path):
    file = tmp_path / "bundle.key"
    assert not Pseudonyms(b"s", file).used
    assert not file.exists()


def test_without_a_place_for_a_key_labels_still_come_from_one(tmp_path):
    lost = Pseudonyms(b"s", tmp_path / "file" / "key")
    (tmp_path / "file").write_text("not a folder")
    assert lost.of("abc") == lost.of("abc")
    assert not lost.lasting


def test_a_label_is_no_plain_hash(tmp_path):
    label = Pseudonyms(b"s", tmp_path / "k").of("abc").removeprefix("hash:")
    plain = [
        hashlib.new(name, text).hexdigest()
        for name in ("md5", "sha1", "sha256")
        for text in (b"abc", b"sabc")
    ]
    assert not any(label in one for one in plain)
