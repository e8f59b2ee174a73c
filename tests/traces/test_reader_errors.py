"""Every way of breaking a trace gives a clear error, in one line that says where."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.reader import open_stream, parse, read
from mlxdiag.traces.types import Entry
from tests.traces.example import BLOCK, LINES, both


def test_cut_header_is_unreadable_or_shorter_never_a_traceback(tmp_path: Path) -> None:
    data = LINES.encode()
    for size in range(data.index(b"steps:")):
        (tmp_path / "t.yaml").write_bytes(data[:size])
        with pytest.raises(UnreadableError, match=r"t\.yaml: "):
            read(tmp_path / "t.yaml")


def test_only_the_last_line_can_be_torn(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(LINES + '- {"step": 7,\n- {"step": 8}')
    with pytest.raises(UnreadableError, match=r"step 7: not readable"):
        read(tmp_path / "t.yaml")


def test_aliases_cannot_blow_up() -> None:
    bomb = "&a0 [x, x, x]" + "".join(
        f", &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)
    )
    with pytest.raises(UnreadableError, match="aliases that stand for far more than the text holds"):
        parse(f"steps:\n- {{step: 7, config: {{x: [{bomb}]}}}}\n")


@pytest.mark.parametrize(
    "schema", ["mlxdiag.trace/2", "mlxdiag.trace/0.9", "mlxdiag.findings/1", "1", "null", "[]"]
)
def test_other_versions_are_refused(schema: str) -> None:
    with pytest.raises(UnreadableError, match=r"^a\.yaml: header: schema: .*mlxdiag\.trace/1"):
        parse(f"schema: {schema}\nsteps:\n- {{}}\n", name="a.yaml")


SLIPS = {
    "attention[0].k: expected int or list, got str": "attention: [{k: many}]",
    "attention[1].q: expected int >= 0": "attention: [{}, {q: -1}]",
    "rows[0].tokens: expected int, got float": "rows: [{tokens: 1.5}]",
    "rows[0].tokens: expected int, got bool": "rows: [{tokens: true}]",
    "rows: expected list, got mapping": "rows: {tokens: 1}",
    "rows[0]: expected mapping, got int": "rows: [5]",
    "layers.full.window: expected int, got str": "layers: {sliding: {window: 8}, full: {window: big}}",
    "layers.full.window: expected int >= 1": "layers: {sliding: {window: 8}, full: {window: 0}}",
    "layers.sliding.window: expected int >= 1": "layers: {sliding: {window: -4}}",
    "layers.sliding.keep: expected int >= 0": "layers: {sliding: {window: 8, keep: -1}}",
    "layers.sliding.slack: expected int >= 0": "layers: {sliding: {window: 8, slack: -3}}",
    "phase: 'prefil' is none of prefill, chunk, decode": "phase: prefil",
    "rows[1].phase: 'x' is none of prefill,": "rows: [{}, {phase: x}]",
    "attention[0].cache: 'ring' is none of dense, rotating,": "attention: [{cache: ring}]",
    "attention[0].fate: 'lost' is none of used, cropped,": "attention: [{fate: lost}]",
    "attention[0].fallback: 'hope' is none of windowed, causal, ": "attention: [{fallback: hope}]",
    "note: expected str, got int": "note: 5",
    "attention[0].mask: 'full' is none of causal": "attention: [{mask: full}]",
    "attention[0].crop: 'left' is none of old, new": "attention: [{crop: left}]",
    "layers.a.attention: 'local' is none of full, sliding, chunked": "layers: {a: {attention: local}}",
    "rows[0].finish: 'stop' is none of eos,": "rows: [{finish: stop}]",
    "rows[0].padded: 2 is less than the 3 tokens": "rows: [{tokens: 3, padded: 2}]",
    "tokens.reserved[0]: expected list of length 2": "tokens: {reserved: [[1]]}",
}


@pytest.mark.parametrize("message", SLIPS)
@pytest.mark.parametrize("style", ["flow", "block", "json", "document"])
def test_wrong_values_name_file_step_and_field(message: str, style: str, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"step": 5, **yaml.safe_load(SLIPS[message])}
    item = {
        "flow": f"- {{step: 5, {SLIPS[message]}}}\n",
        "block": yaml.safe_dump([fields]),
        "json": f"- {json.dumps(fields)}\n",
        "document": yaml.safe_dump([fields]) + "note: at the end\n",
    }[style]
    path = tmp_path / "t.yaml"
    path.write_text(f"schema: mlxdiag.trace/1\nsteps:\n- step: 4\n{item}")
    with open_stream(path) as stream:
        iterator = iter(stream)
        assert next(iterator) == Entry(step=4)
        with pytest.raises(UnreadableError) as caught:
            next(iterator)
    assert str(caught.value).startswith(f"{path}: step 5: {message}")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(" (line 4)") or style == "document"


BROKEN = {
    '- {"step": 7 "phase": "decode"}': r"step 7: .*: expecting ',' delimiter at column 14, after field step",
    '- {"step": 7, "rows": [{"tokens": 1}': r"step 7: .*: expecting ',' delimiter at column \d+, after f",
    "- {step: 7, rows: [}": "step 7: not readable: .*, after field rows",
    "- step: 7\n  rows: [": "step 7: not readable: ",
    "- step: 7\n tokens: 3": "step 7: not readable: ",
    "- ": r"entry 3: an empty item",
    "- 5": r"entry 3: expected a mapping, got int",
    "- null": r"entry 3: expected a mapping, got nothing",
    "- [1]": r"entry 3: expected a mapping, got list",
    '- {"step": 7, "note": "\udcff"}': r"step 7: not UTF-8 text \(byte 0xff\), after field note",
    "- {step: 7, note: !!set {a}}": "step 7: not readable: a value of type set, which a trace cannot hold",
    "- {step: 7, note: !!python/object:os.system x}": "step 7: not readable: could not determine a cons",
    "- &a {step: 7, config: {x: *a}}": "step 7: not readable: nested too deeply",
    "- {step: 7, config: *a}": "step 7: not readable: found undefined alias",
    "- {step: 7, note: a\x07b}": "step 7: not readable: ",
    '- {"step": 7, "config": ' + '{"a": ' * 5000 + "1" + "}" * 5000 + "}": "step 7: .*nested too deeply",
    '- {"step": 7, "config": ' + "[" * 100_000: "step 7: .*ne",
    "steps:": "`steps:` after the steps: header fields go before `steps:`",
    "schema: mlxdiag.trace/1": "`schema:` after the steps: header fields go before `steps:`",
    "word": "not part of the list of steps",
    '---\n- {"step": 7}': "text after the end of the document",
    " - {step: 7}": "not part of the list of steps",
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda text: text[:40])
def test_hand_broken_line_in_the_middle_names_its_place(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{LINES}{broken}\n- {{step: 8}}\n", "utf-8", "surrogateescape")
    with open_stream(path) as stream:
        iterator = iter(stream)
        assert [next(iterator), next(iterator)] == both().entries
        with pytest.raises(UnreadableError, match=BROKEN[broken]) as caught:
            list(iterator)
        assert not stream.truncated
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert any(message.endswith(f" (line {line})") for line in (7, 8, 9))
    assert "\n" not in message


def test_lines_are_counted_past_comments_and_continuations(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        LINES + "\n# c\n" + '- {"step": 7,\n   "note": "n"}\n' + '- {"step": 8}\n\n- {"step": "x"}\n'
    )
    with pytest.raises(UnreadableError, match=r"entry 5: step: expected int, got str \(line 13\)"):
        read(path)


UNREADABLE = {
    "empty": (b"", "is empty, not a trace"),
    "blank": (b"\n \n", "not a trace: expected `schema: mlxdiag.trace/1` and `steps:`"),
    "binary": (b"\x7fELF\0\0", "a binary file, not a trace"),
    "zip": (b"PK\x03\x04abc", "a zip archive, not a trace"),
    "gzip": (b"\x1f\x8b\x08\0", "compressed with gzip"),
    "utf-16": (LINES.encode("utf-16"), "UTF-16 text; save it as UTF-8"),
    "latin-1": ("schema: x\nnote: größer\nsteps:\n".encode("latin-1"), "line 2: not UTF-8 text"),
    "prose": (b"Dear all, it crashed.\n", "not a trace: expected `schema"),
    "log": (b"2026-01-01 ERROR: [x] {y\n" * 9, "not readable as YAML: "),
    "a list": (b"- 1\n- 2\n", "not a trace: expected `schema"),
    "no steps": (b"schema: mlxdiag.trace/1\n", "not a trace: `steps:` is missing"),
    "an audit": (b'{"schema": "mlxdiag.audit/1"}', "(mlxdiag.audit/1), which `mlxdiag report` shows"),
    "steps of text": (b"schema: mlxdiag.trace/1\nsteps: many\n", "steps: expected a list, got str"),
    "steps of fields": (b"schema: mlxdiag.trace/1\nsteps:\n  a: 1\n", "not part of the list of steps"),
    "bad header type": (LINES.replace("512", "x").encode(), "header: scheduler.chunk: expected int, got str"),
    "bad header yaml": (LINES.replace("512,", "{").encode(), "line 3: not readable as YAML"),
    "deep header": (b"note: " + b"[" * 50_000 + b"]" * 50_000 + b"\nsteps:\n", "header: note: nested too"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_trace_says_so_in_one_line(name: str, tmp_path: Path) -> None:
    data, message = UNREADABLE[name]
    path = tmp_path / "t.yaml"
    path.write_bytes(data)
    with pytest.raises(UnreadableError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_and_a_directory_are_named(tmp_path: Path) -> None:
    for path, message in [
        ("absent.yaml", "no such file"),
        ("", "is a directory"),
        ("a\0b", "cannot be opened"),
    ]:
        with pytest.raises(UnreadableError, match=message):
            read(os.path.join(tmp_path, path))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(BLOCK)), st.integers(0, 8), st.sampled_from([LINES, BLOCK]))
def test_no_damage_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, at: int, cut: int, text: str
) -> None:
    data = text.encode()
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_bytes(data[:at] + damage + data[at + cut :])
    with contextlib.suppress(UnreadableError):
        assert all(isinstance(entry, Entry) for entry in read(path).entries)


def test_a_wrong_value_of_the_model_in_a_header_names_the_family_that_it_belongs_to() -> None:
    text = "schema: mlxdiag.trace/1\nmodel: {layers: {full: {}, sliding: {window: -4}}}\nsteps: []\n"
    with pytest.raises(UnreadableError, match=r"header: model\.layers\.sliding\.window: expected int >= 1"):
        parse(text)
