from __future__ import annotations

import json

import pytest

from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.pack.archive import MANIFEST, manifest
from mlxdiag.bundle.pack.check import problems
from tests.bundle.orders import made


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    members = made().members
    return {**members, MANIFEST: manifest(members)}


def signed(members: dict[str, bytes], **changed: bytes | None) -> dict[str, bytes]:
    """With members changed or taken out, and checksums that fit."""
    left = {**members, **{name: data for name, data in changed.items() if data is not None}}
    left = {name: data for name, data in left.items() if changed.get(name, b"") is not None}
    return {**left, MANIFEST: manifest(left)}


NOBODY = Facts()


def kinds(members, facts=NOBODY):
    return {(problem.kind, problem.text.split(" ")[0].rstrip(",:")) for problem in problems(members, facts)}


def test_a_bundle_as_it_was_made_has_none(whole):
    assert problems(whole, Facts()) == []


def test_a_changed_member_a_new_one_and_a_lost_one_break_the_checksums(whole):
    assert kinds({**whole, "model.json": whole["model.json"] + b" "}) == {("checksum", "model.json")}
    assert ("checksum", "logs/9.log") in kinds({**whole, "logs/9.log": b"INFO: 1\n"})
    lost = {name: data for name, data in whole.items() if name != "model.json"}
    assert kinds(lost) == {("checksum", "model.json")}


def test_what_no_bundle_holds_is_told(whole):
    assert kinds(signed(whole, **{"photo.jpg": b"x"})) == {("member", "photo.jpg")}
    assert ("member", "findings.json") in kinds(signed(whole, **{"findings.json": None}))


def test_another_schema_is_told(whole):
    other = json.loads(whole["findings.json"]) | {"schema": "mlxdiag.findings/9"}
    assert kinds(signed(whole, **{"findings.json": json.dumps(other).encode()})) == {
        ("schema", "findings.json")
    }
    assert ("schema", "model.json") in kinds(signed(whole, **{"model.json": b"[]"}))
    broken = whole["trace.yaml"] + b'- {"step": "x"}\n'
    assert ("schema", "trace.yaml") in kinds(signed(whole, **{"trace.yaml": broken}))


def test_private_things_are_told_with_their_place_and_without_their_text(whole):
    members = signed(whole, **{"logs/1.log": b"INFO: 1\nINFO: peer 10.3.7.21\n"})
    (problem,) = problems(members, Facts())
    assert problem.kind == "private"
    assert problem.text.startswith("logs/1.log, line 2: ")
    assert "10.3" not in problem.text


def test_this_readers_own_machine_is_looked_for(whole):
    facts = Facts((("user name", "kestrel"),))
    assert kinds(signed(whole, **{"summary.md": b"by Kestrel\n"}), facts) == {("private", "summary.md")}


def test_a_bundle_cannot_excuse_itself_from_secrets(whole):
    index = json.loads(whole["bundle.json"])
    index["asked_for"] = {"words": [" ", ".", "10", "3", "jane@kestrel.lan"], "tokens": "yes"}
    for text in (b"peer 10.3.7.21\n", b"for jane@kestrel.lan\n"):
        members = signed(whole, **{"bundle.json": json.dumps(index).encode(), "logs/1.log": text})
        assert ("private", "logs/1.log") in kinds(members)
