"""Whether a bundle is whole, is one, and holds nothing that a bundle must not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mlxdiag.bundle.detect import detector
from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.pack import archive, parts
from mlxdiag.errors import UnreadableError
from mlxdiag.traces.blocks import Blocks
from mlxdiag.traces.stream import Stream

FOLDERS = ("logs/", "repro/")
REQUIRED = ("MANIFEST", "bundle.json", "findings.json", "redaction.json", "summary.md", "trace.yaml")
SCHEMAS = {
    "bundle.json": archive.SCHEMA,
    "controls.json": "mlxdiag.controls/1",
    "environment.json": "mlxdiag.environment/1",
    "findings.json": "mlxdiag.findings/1",
    "model.json": "mlxdiag.model/1",
    "redaction.json": "mlxdiag.redaction/1",
}


class Problem(msgspec.Struct, frozen=True, order=True):
    """Something that is not as it must be."""

    kind: str
    """checksum, schema, member or private."""
    text: str


def problems(members: Mapping[str, bytes], facts: Facts, beside: Iterable[str] = ()) -> list[Problem]:
    """Everything that is wrong with the members of an archive that could be read.

    `beside`: what the archive holds beside them, in words (`beside.beside`), which is not searched.
    """
    unseen = (Problem("private", f"{one}, which is not searched: no bundle has it") for one in beside)
    found = (*_checksums(members), *_members(members), *_schemas(members), *_private(members, facts))
    return sorted({*found, *unseen})


def _checksums(members: Mapping[str, bytes]) -> Iterator[Problem]:
    said, made = archive.sums(members.get(archive.MANIFEST, b"")), archive.sums(archive.manifest(members))
    for name in sorted(said.keys() | made.keys()):
        if name not in made:
            yield Problem("checksum", f"{name} is in the manifest and not in the bundle")
        elif name not in said:
            yield Problem("checksum", f"{name} is not in the manifest")
        elif said[name] != made[name]:
            yield Problem("checksum", f"{name} was changed after the bundle was made")


def _members(members: Mapping[str, bytes]) -> Iterator[Problem]:
    for name in REQUIRED:
        if name not in members:
            yield Problem("member", f"{name} is missing")
    for name in members:
        if name not in parts.WHAT and not name.startswith(FOLDERS):
            yield Problem("member", f"{name} is no part of a bundle")


def _schemas(members: Mapping[str, bytes]) -> Iterator[Problem]:
    for name, schema in SCHEMAS.items():
        if name in members:
            value = _json(members[name])
            if not isinstance(value, dict) or value.get("schema") != schema:
                yield Problem("schema", f"{name} is not {schema}")
            elif name == "model.json" and not isinstance(value.get("files"), list | None):
                yield Problem("schema", "model.json: files: expected a list")
    for name in ("trace.yaml", "repro/trace.yaml"):
        if name in members:
            yield from _trace(name, members[name])


def _trace(name: str, data: bytes) -> Iterator[Problem]:
    try:
        with Stream(Blocks.of_text(data, name)) as stream:
            for _ in stream:
                pass
            for warning in stream.warnings:
                yield Problem("schema", warning)
    except UnreadableError as error:
        yield Problem("schema", str(error))


def _private(members: Mapping[str, bytes], facts: Facts) -> Iterator[Problem]:
    words, tokens = _asked(members)
    for hit in detector.scan(members, facts, asked=words, raw_ids=tokens):
        yield Problem("private", str(hit))


def asked_for(members: Mapping[str, bytes]) -> list[str]:
    """What the bundle says that its reporter put in by name, which is not held against it: in words."""
    words, tokens = _asked(members)
    return [*(f"the word {word!r}" for word in words), *(["token ids as they are"] if tokens else [])]


def _asked(members: Mapping[str, bytes]) -> tuple[list[str], bool]:
    index = _json(members.get("bundle.json", b""))
    asked: Any = index.get("asked_for") if isinstance(index, dict) else None
    asked = asked if isinstance(asked, dict) else {}
    listed = asked.get("words")
    words = [word for word in listed if isinstance(word, str)] if isinstance(listed, list) else []
    return words, asked.get("tokens") is True


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
