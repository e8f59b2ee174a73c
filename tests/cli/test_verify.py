"""`mlxdiag verify`, and `inspect` and `replay` of a bundle, from friends and from strangers."""

from __future__ import annotations

import json
import zipfile

import pytest

from mlxdiag.bundle.pack.archive import manifest, pack
from tests.bundle.orders import made
from tests.bundle.zips import SYMLINK, encrypted, written
from tests.cli.program import call
from tests.samples.expected import FOLDER


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.zip").write_bytes(made(FOLDER / "gpt-oss-one-pass.yaml").data)
    return "b.zip"


def test_a_whole_bundle(bundle, capsys):
    done = call(capsys, "verify", bundle)
    assert done.code == 0
    assert "checksums and schemas fit, and nothing private was found" in done.out


def test_a_changed_one(bundle, capsys, tmp_path):
    members = made().members
    (tmp_path / bundle).write_bytes(pack({**members, "logs/1.log": b"INFO: peer 10.3.7.21\n", "x.bin": b"1"}))
    done = call(capsys, "verify", bundle)
    assert done.code == 1
    assert "private: logs/1.log, line 1: an address" in done.out
    assert "member: x.bin is no part of a bundle" in done.out


def test_what_stands_beside_the_members_is_not_passed_over(bundle, capsys, tmp_path):
    with zipfile.ZipFile(tmp_path / bundle, "a") as archive:
        archive.comment = b"by zorblax"
    done = call(capsys, "verify", bundle)
    assert done.code == 1
    assert "private: the zip has a comment, which is not searched: no bundle has it" in done.out
    assert "nothing private" not in done.out
    assert "zorblax" not in done.out


def test_a_model_card_of_another_shape_is_told_in_one_line(bundle, capsys, tmp_path):
    members = made().members
    card = json.loads(members["model.json"]) | {"files": 5}
    (tmp_path / bundle).write_bytes(pack({**members, "model.json": json.dumps(card).encode()}))
    done = call(capsys, "verify", bundle)
    assert done.code == 1
    assert done.out.splitlines()[1:] == ["  schema: model.json: files: expected a list"]
    assert done.err == ""


def test_what_its_reporter_asked_for_is_named(bundle, capsys, tmp_path):
    (tmp_path / bundle).write_bytes(made(keep=("zorblax-7b",)).data)
    assert (
        "asked for by its reporter, and not looked at: the word 'zorblax-7b'"
        in call(capsys, "verify", bundle).out
    )


def test_json(bundle, capsys):
    told = json.loads(call(capsys, "verify", bundle, "--format", "json").out)
    assert told["schema"] == "mlxdiag.verify/1"
    assert told["whole"] is True
    assert told["problems"] == []
    assert "trace.yaml" in told["members"]


@pytest.mark.parametrize("verb", ["verify", "inspect", "replay"])
@pytest.mark.parametrize("kind", ["climbing", "link", "twice", "encrypted", "bomb", "no zip"])
def test_hostile_files_are_refused_in_one_line(verb, kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "b.zip"
    if kind == "climbing":
        written(path, [("trace.yaml", b"steps: []\n"), ("../../evil.txt", b"x")])
    elif kind == "link":
        written(path, [("trace.yaml", b"/etc/passwd")], SYMLINK)
    elif kind == "twice":
        written(path, [("trace.yaml", b"steps: []\n"), ("TRACE.yaml", b"steps: []\n")])
    elif kind == "encrypted":
        encrypted(path)
    elif kind == "bomb":
        written(path, [("trace.yaml", b" " * (8 << 20))])
    else:
        path.write_bytes(b"PK\x03\x04 and nothing")
    done = call(capsys, verb, "b.zip")
    assert done.code == 3
    assert done.out == ""
    assert "Traceback" not in done.err
    assert [line for line in done.err.splitlines() if line.startswith("mlxdiag: error: b.zip")]
    assert [one.name for one in tmp_path.iterdir()] == ["b.zip"]


def test_a_bundle_is_inspected_as_its_trace_is(bundle, capsys):
    done = call(capsys, "inspect", bundle)
    assert done.code == 1
    assert "MD901 shape-crash" in done.out
    assert f"next: mlxdiag replay {bundle} --misfit strict,rebuild" in done.out


def test_a_bundle_is_replayed_as_its_trace_is(bundle, capsys):
    done = call(capsys, "replay", bundle, "--plan")
    assert done.code == 0
    assert "1 forwards of gpt_oss" in done.out


@pytest.mark.parametrize("verb", ["inspect", "replay", "report"])
def test_a_bundle_that_was_changed_is_not_read_as_it_was(verb, bundle, capsys, tmp_path):
    members = made().members
    changed = members["trace.yaml"].replace(b'"offset": 2048', b'"offset": 2049')
    assert changed != members["trace.yaml"]
    sums = manifest(members)
    written(tmp_path / "b.zip", [*{**members, "trace.yaml": changed, "MANIFEST": sums}.items()])
    done = call(capsys, verb, "b.zip")
    assert done.code == 3
    assert done.out == ""
    assert "error: b.zip: trace.yaml was changed after the bundle was made" in done.err
