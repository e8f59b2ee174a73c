from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from mlxdiag.bundle import detect, redact
from mlxdiag.bundle.detect import detector
from mlxdiag.bundle.detect.facts import Facts

NOBODY = Facts()


def kinds(member: str, text: str, facts: Facts = NOBODY, **more) -> set[str]:
    return {hit.kind for hit in detector.scan({member: text.encode()}, facts, **more)}


def test_facts_of_the_machine_are_found_in_every_member():
    facts = Facts((("host name", "kestrel"),))
    for member in ("summary.md", "repro/repro.py", "logs/1.log", "environment.json", "MANIFEST"):
        assert "this machine's host name" in kinds(member, "on Kestrel: 1", facts)


def test_what_was_taken_out_in_one_place_is_found_in_another():
    assert kinds("summary.md", "the run of swordfish99", removed=["swordfish99"]) == {
        "a text that had been taken out elsewhere"
    }


def test_a_word_that_was_asked_for_is_no_hit():
    assert kinds("logs/1.log", "loaded zorblax/my-model-7b 1") != set()
    assert kinds("logs/1.log", "loaded zorblax/my-model-7b 1", asked=["zorblax/my-model-7b"]) == set()


def test_forbidden_names_in_json():
    assert kinds("environment.json", json.dumps({"a": {"prompt": "kiwi"}}))
    assert kinds("environment.json", json.dumps({"a": {"prompt": "[4 characters]", "text": ""}})) == set()
    assert kinds("tokens.jsonl", '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]}')


def test_token_ids_are_no_hit_where_they_were_asked_for():
    ids = "[1, 2, 3, 4, 5, 6, 7, 8, 9]"
    for member, text in (("logs/1.log", f"offset {ids}"), ("tokens.jsonl", f'{{"input_ids": {ids}}}')):
        assert kinds(member, text) != set()
        assert kinds(member, text, raw_ids=True) == set()


def test_a_long_string_is_no_trace():
    line = '- {{"step": 1, "note": "{}"}}'
    assert kinds("trace.yaml", line.format("mask " * 80)) == set()
    assert kinds("trace.yaml", line.format("mask " * 81)) == {"a string too long for a trace"}


def test_checksums_that_the_bundle_declares_are_no_hit_and_others_are():
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert kinds("MANIFEST", f"{digest}  trace.yaml\n") == set()
    assert kinds("logs/1.log", f"prefix {digest}\n")


@pytest.mark.parametrize("card", ["no json", "[]", '{"files": 5}', '{"files": [5, {"sha256": 5}]}'])
def test_a_broken_model_card_excuses_nothing(card):
    text = "Q9w8e7R6t5y4U3i2" * 4  # as long as a checksum
    members = {"MANIFEST": f"{text}  x".encode(), "model.json": card.encode(), "logs/1.log": text.encode()}
    assert {hit.member for hit in detector.scan(members, NOBODY)} >= {"MANIFEST", "logs/1.log"}


def test_bytes_that_are_no_text_are_refused():
    assert detector.scan({"logs/1.log": b"\xff\xfe\x00"}, NOBODY)


@pytest.mark.parametrize(
    "line",
    [
        "zorblax@kestrel", "https://zorblax.io/x", "/Users/zorblax/x", "10.3.7.21", "sk-live-abcdef123456",
        "AKIAIOSFODNN7ZORBLAX", "C:\\Users\\zorblax", "3c:22:fb:91:0e:7d",
    ],
)  # fmt: skip
def test_in_programs_only_what_cannot_be_program_text_counts(line):
    assert kinds("repro/repro.py", f"value = 1  # {line}")


def test_a_program_is_no_hit():
    source = "import mlx.core as mx\n\n\n@wraps\ndef run(a, b):\n    return a / b @ x[::2]\n\n\nprint(1)\n"
    assert kinds("repro/repro.py", source) == set()


def test_places_are_told_and_texts_are_not():
    (hit,) = detector.scan({"logs/1.log": b"one 1\nmail zorblax@example.com 1\n"}, NOBODY)[:1]
    assert (hit.member, hit.line) == ("logs/1.log", 2)
    assert "zorblax" not in str(hit)
    (hit,) = detector.scan({"tokens.jsonl": b'{"step": 1}\n{"step": 2, "text": "kiwi"}\n'}, NOBODY)
    assert (hit.member, hit.line) == ("tokens.jsonl", 2)


@pytest.mark.parametrize(("one", "other"), [(detect, redact), (redact, detect)])
def test_it_shares_no_code_with_the_cleaning(one, other):
    files = sorted(Path(one.__path__[0]).glob("*.py"))
    assert len(files) > 5
    for path in files:
        assert not [name for name in imported(path) if name.startswith(other.__name__)], path.name


def imported(path: Path) -> set[str]:
    """Full names of what a file imports from, and of what it takes from there."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, path.name
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found
