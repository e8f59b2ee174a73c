"""Every way of writing a trace gives the same objects; every way of breaking one gives a clear error."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.blocks import Blocks
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.reader import open_stream, parse, read
from mlxdiag.traces.stream import Stream
from mlxdiag.traces.types import Attention, Entry, Family, Header, Model, Row, Trace
from tests.traces.strategies import entries, traces

# The example of the format's description, in the style a recorder writes.
LINES = """\
schema: mlxdiag.trace/1
source: {program: mlxcel-server, version: 0.4.1}
scheduler: {chunk: 512, pad_to: 32, max_kv: null, misfit: "discard:windowed"}
steps:
- {"step": 5, "phase": "chunk", "rows": [{"seq": "seq-6", "offset": 2048, "tokens": 153, "padded": 160}], "at\
tention": [{"family": "sliding", "q": 160, "k": 671, "mask": [160, 160]}, {"family": "full", "mask": null}]}
- {"step": 6, "phase": "decode", "rows": [{"seq": "seq-6", "offset": 2208, "tokens": 1}]}
"""

BLOCK = """\
# written by hand
--- # one document
schema: mlxdiag.trace/1
source:
  program: mlxcel-server
  version: 0.4.1
scheduler: {chunk: 512, pad_to: 32,
            misfit: discard:windowed}

steps:   # two of them

  - step: 5
    phase: chunk
    rows:
      - seq: seq-6
        offset: 2048
        tokens: 153

        padded: 160
    # the call in question
    attention:
      - {family: sliding, q: 160, k: 671,
         mask: [160, 160]}
      - {family: full, mask: null}
  - {step: 6, phase: decode, "rows": [{seq: seq-6, 'offset': 2208, tokens: 1}]}  # decode
...
"""


def both() -> Trace:
    scheduler = {"chunk": 512, "pad_to": 32, "misfit": "discard:windowed"}
    source = {"program": "mlxcel-server", "version": "0.4.1"}
    header = msgspec.convert({"source": source, "scheduler": scheduler}, Header)
    sliding = Attention(family="sliding", q=160, k=671, mask=(160, 160))
    row = Row(seq="seq-6", offset=2048, tokens=153, padded=160)
    five = Entry(step=5, phase="chunk", rows=[row], attention=[sliding, Attention(family="full", mask=None)])
    six = Entry(step=6, phase="decode", rows=[Row(seq="seq-6", offset=2208, tokens=1)])
    return Trace(header, [five, six])


def indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines() if not line.startswith(("---", "...")))


VARIANTS = {
    "lines": LINES,
    "block": BLOCK,
    "crlf lines": LINES.replace("\n", "\r\n"),
    "crlf block": BLOCK.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + LINES,
    "no last line break": LINES.rstrip("\n"),
    "no last line break, block": BLOCK.removesuffix("\n...\n"),
    "indented items": LINES.replace("\n- ", "\n     - "),
    "quoted steps": LINES.replace("\nsteps:", '\n"steps" : # ...'),
    "directive and markers": "%YAML 1.1\n---\n" + LINES + "...\n\n# the end\n",
    "blank lines and comments": LINES.replace("\n- ", "\n\n# step\n   # more\n- "),
    "comments after items": LINES.replace("}]}\n", "}]}  # fed\n"),
    "whole document indented": indented(BLOCK),
    "steps before the header": "steps:\n" + BLOCK.split("two of them\n")[1].removesuffix("...\n")
    + BLOCK.split("document\n")[1].split("steps:")[0],
    "one json object": json.dumps(yaml.safe_load(LINES)),
    "json printed over lines": json.dumps(yaml.safe_load(LINES), indent=2),
    "items printed over lines": LINES.split("- ")[0]
    + "".join("- " + json.dumps(step, indent=1) + "\n" for step in yaml.safe_load(LINES)["steps"]),
    "plain yaml dump": yaml.safe_dump(yaml.safe_load(LINES)),
    "yaml dump, flow": yaml.safe_dump(yaml.safe_load(LINES), default_flow_style=True),
    "anchors in one item": BLOCK.replace("mask: [160, 160]", "mask: &m [160, 160]"),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_every_style_gives_equal_objects(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_bytes(VARIANTS[name].encode())
    assert read(path) == both()


@settings(max_examples=100, deadline=None)
@given(st.lists(entries, max_size=4), st.data())
def test_yaml_and_json_lines_mix_freely(several: list[Entry], data: st.DataObject) -> None:
    text = header_text(Header())
    for entry in several:
        line = entry_line(entry)
        if data.draw(st.booleans()):
            (fields,) = yaml.safe_load(line)
            dumped = yaml.safe_dump(fields, default_flow_style=data.draw(st.booleans()))
            line = f"- {dumped.rstrip(chr(10)).replace(chr(10), chr(10) + '  ')}\n".encode()
        text += line + data.draw(st.sampled_from([b"", b"\n", b"# comment\n"]))
    assert parse(text.decode()).entries == several


@settings(max_examples=25, deadline=None)
@given(traces)
def test_cut_anywhere_it_yields_a_prefix(trace: Trace) -> None:
    head = header_text(trace.header)
    data = head + b"".join(entry_line(entry) for entry in trace.entries)
    for size in range(len(head), len(data) + 1):
        got = Stream(Blocks.of_text(data[:size], "cut")).collect()
        assert got.entries == trace.entries[: len(got.entries)]
        assert len(got.entries) >= data[:size].count(b"\n") - head.count(b"\n")
        whole = data[:size].endswith(b"\n") or data[size : size + 1] == b"\n"
        assert got.truncated is not whole


def test_cut_header_is_unreadable_or_shorter_never_a_traceback(tmp_path: Path) -> None:
    data = LINES.encode()
    for size in range(data.index(b"steps:")):
        (tmp_path / "t.yaml").write_bytes(data[:size])
        with pytest.raises(UnreadableError, match=r"t\.yaml: "):
            read(tmp_path / "t.yaml")


@pytest.mark.parametrize(
    "tail", [b"-", b"- ", b"- {", b'- {"note": "}', b'- {"note": "\xc3', b"\0\0\0", b'- {"a\0\0']
)
def test_torn_tails_are_told_apart_from_errors(tail: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_bytes(LINES.encode() + tail)
    trace = read(tmp_path / "t.yaml")
    assert trace.truncated
    assert trace.entries == both().entries


def test_only_the_last_line_can_be_torn(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(LINES + '- {"step": 7,\n- {"step": 8}')
    with pytest.raises(UnreadableError, match=r"step 7: not readable"):
        read(tmp_path / "t.yaml")


def test_byte_order_mark_before_steps() -> None:
    assert parse("\ufeffsteps:\n- {step: 1}\n").entries == [Entry(step=1)]


def test_stream_knows_truncation_after_the_last_entry(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(LINES + '- {"step')
    with open_stream(tmp_path / "t.yaml") as stream:
        assert stream.header == both().header
        assert list(stream) == both().entries
        assert stream.truncated


def test_compressed_file_and_what_is_whole_of_a_cut_one(tmp_path: Path) -> None:
    many = LINES + "".join(
        f'- {{"step": {step}, "note": "{os.urandom(40).hex()}"}}\n' for step in range(7, 9000)
    )
    path = tmp_path / "trace.yaml.zst"
    path.write_bytes(zstd.compress(LINES.encode()))
    assert read(path) == both()
    path.write_bytes(zstd.compress(LINES.encode()) + zstd.compress(b'- {"step": 7}\n'))
    assert [entry.step for entry in read(path).entries] == [5, 6, 7]
    packed = zstd.compress(many.encode())
    path.write_bytes(packed[: len(packed) // 2])
    trace = read(path)
    assert trace.truncated
    assert [entry.step for entry in trace.entries] == list(range(5, 5 + len(trace.entries)))
    assert len(trace.entries) > 1000
    unfinished = zstd.ZstdCompressor()
    path.write_bytes(unfinished.compress(LINES.encode(), zstd.ZstdCompressor.FLUSH_BLOCK))
    trace = read(path)
    assert trace.truncated
    assert trace.entries == both().entries
    path.write_bytes(packed[:-3000] + bytes(3000))
    with pytest.raises(UnreadableError, match=r"trace\.yaml\.zst: the compressed data is damaged"):
        read(path)


def test_text_needs_no_schema_line_but_a_file_does(tmp_path: Path) -> None:
    text = "steps:\n- {step: 1}\n"
    assert parse(text).entries == [Entry(step=1)]
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(
        UnreadableError, match=r"t\.yaml: not a trace: the line `schema: mlxdiag\.trace/1` is missing"
    ):
        read(tmp_path / "t.yaml")


def test_text_may_be_indented_as_in_source_code() -> None:
    trace = parse("""
        model: {name: m, layers: {s: {attention: sliding, window: 8}}}
        steps:
          - {step: 1, rows: [{tokens: 3}]}
    """)
    assert trace.header.model == Model(name="m", layers={"s": Family(attention="sliding", window=8)})
    assert trace.entries == [Entry(step=1, rows=[Row(tokens=3)])]


def test_no_steps_yet_is_a_trace() -> None:
    assert parse("steps:\n").entries == []
    assert parse("steps: []\n").entries == []
    assert parse("steps:").entries == []


def test_mask_null_is_observed_and_absent_is_not() -> None:
    given_none, absent = parse("steps:\n- attention: [{mask: null}, {q: 1}]\n").entries[0].attention or []
    assert given_none.mask is None
    assert absent.mask is msgspec.UNSET


def test_duplicate_keys_keep_the_last_value_in_every_style() -> None:
    line = '- {"step": 1, "step": 2}\n'
    assert parse(f"steps:\n{line}").entries == [Entry(step=2)]
    assert parse("steps:\n- step: 1\n  step: 2\n").entries == [Entry(step=2)]


def test_names_written_as_numbers_are_text() -> None:
    trace = parse('steps:\n- {"rows": [{"seq": 6}], "attention": [{"family": 1}]}\n- rows: [{seq: 6}]\n')
    assert trace.entries == [
        Entry(rows=[Row(seq="6")], attention=[Attention(family="1")]),
        Entry(rows=[Row(seq="6")]),
    ]


def test_anchors_reach_across_entries() -> None:
    shared = "steps:\n- {step: 1, rows: &both [{tokens: 3}]}\n- {step: 2, rows: *both}\n"
    assert parse(shared).entries == [Entry(step=step, rows=[Row(tokens=3)]) for step in (1, 2)]


def test_aliases_cannot_blow_up() -> None:
    bomb = "&a0 [x, x, x]" + "".join(
        f", &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)
    )
    with pytest.raises(UnreadableError, match="aliases that stand for far more than the text holds"):
        parse(f"steps:\n- {{step: 7, config: {{x: [{bomb}]}}}}\n")


@pytest.mark.parametrize("text", ["1e-7", "1E-7", "1.0e-07", "1.e-7"])
def test_small_floats_are_numbers_in_block_style(text: str) -> None:
    assert parse(f"steps:\n- output:\n  - margin: {text}\n").entries[0].output[0].margin == 1e-7  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "value"), [("NaN", math.nan), (".nan", math.nan), ("-Infinity", -math.inf), (".inf", math.inf)]
)
def test_floats_that_json_lacks(text: str, value: float, tmp_path: Path) -> None:
    trace = parse(f'steps:\n- {{"step": 1, "output": [{{"margin": {text}}}], "note": ".nan NaN"}}\n')
    for _ in range(2):
        (output,) = trace.entries[0].output or []
        assert repr(output.margin) == repr(value)
        assert trace.entries[0].note == ".nan NaN"
        (tmp_path / "t.yaml").write_bytes(header_text(trace.header) + entry_line(trace.entries[0]))
        assert repr(
            yaml.safe_load((tmp_path / "t.yaml").read_bytes())["steps"][0]["output"][0]["margin"]
        ) == repr(value)
        trace = read(tmp_path / "t.yaml")


def test_unknown_fields_warn_once_a_path() -> None:
    trace = parse("""
        colour: red
        steps:
        - {"step": 1}
        - {"step": 2, "attention": [{"q": 1, "new": 1}, {"new": 2}]}
        - {"step": 3, "attention": [{"q": 1, "new": 1}], "other": {"deep": 1}}
        - {"step": 4, "layers": {"full": {"new": 1}}, "attention_calls": [], "rows": [{"token": 3}]}
    """, name="a.yaml")  # fmt: skip
    assert trace.warnings == (
        "a.yaml: header: unknown field colour ignored",
        "a.yaml: step 2: unknown field attention[].new ignored",
        "a.yaml: step 3: unknown field other ignored",
        "a.yaml: step 4: unknown field layers.full.new ignored",
        "a.yaml: step 4: unknown field attention_calls ignored (did you mean attention?)",
        "a.yaml: step 4: unknown field rows[].token ignored (did you mean tokens?)",
    )
    assert trace.entries[1].attention == [Attention(q=1), Attention()]


@pytest.mark.parametrize(
    "schema", ["mlxdiag.trace/2", "mlxdiag.trace/0.9", "mlxdiag.findings/1", "1", "null", "[]"]
)
def test_other_versions_are_refused(schema: str) -> None:
    with pytest.raises(UnreadableError, match=r"^a\.yaml: header: schema: .*mlxdiag\.trace/1"):
        parse(f"schema: {schema}\nsteps:\n- {{}}\n", name="a.yaml")


def test_newer_minor_version_is_read_with_a_warning() -> None:
    trace = parse("schema: mlxdiag.trace/1.3\nsteps:\n- {step: 1, hue: 2}\n", name="a.yaml")
    assert trace.entries == [Entry(step=1)]
    assert len(trace.warnings) == 2
    assert trace.warnings[0].startswith("a.yaml: header: mlxdiag.trace/1.3 is newer than mlxdiag.trace/1")


SLIPS = {
    "attention[0].k: expected int or list, got str": "attention: [{k: many}]",
    "attention[1].q: expected int >= 0": "attention: [{}, {q: -1}]",
    "rows[0].tokens: expected int, got float": "rows: [{tokens: 1.5}]",
    "rows[0].tokens: expected int, got bool": "rows: [{tokens: true}]",
    "rows: expected list, got mapping": "rows: {tokens: 1}",
    "rows[0]: expected mapping, got int": "rows: [5]",
    "layers.full.window: expected int, got str": "layers: {sliding: {window: 8}, full: {window: big}}",
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


def test_symlink_and_pipe_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(LINES)
    (tmp_path / "link").symlink_to(tmp_path / "t.yaml")
    assert read(tmp_path / "link") == both()
    out, into = os.pipe()
    os.write(into, LINES.encode())
    os.close(into)
    assert read(f"/dev/fd/{out}") == both()
    os.close(out)


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
