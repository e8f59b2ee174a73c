"""Every way of writing a trace gives the same objects."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

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
from tests.traces.example import BLOCK, LINES, both
from tests.traces.strategies import entries, traces


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


@pytest.mark.parametrize(
    "tail", [b"-", b"- ", b"- {", b'- {"note": "}', b'- {"note": "\xc3', b"\0\0\0", b'- {"a\0\0']
)
def test_torn_tails_are_told_apart_from_errors(tail: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_bytes(LINES.encode() + tail)
    trace = read(tmp_path / "t.yaml")
    assert trace.truncated
    assert trace.entries == both().entries


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


def test_newer_minor_version_is_read_with_a_warning() -> None:
    trace = parse("schema: mlxdiag.trace/1.3\nsteps:\n- {step: 1, hue: 2}\n", name="a.yaml")
    assert trace.entries == [Entry(step=1)]
    assert len(trace.warnings) == 2
    assert trace.warnings[0].startswith("a.yaml: header: mlxdiag.trace/1.3 is newer than mlxdiag.trace/1")


def test_symlink_and_pipe_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(LINES)
    (tmp_path / "link").symlink_to(tmp_path / "t.yaml")
    assert read(tmp_path / "link") == both()
    out, into = os.pipe()
    os.write(into, LINES.encode())
    os.close(into)
    assert read(f"/dev/fd/{out}") == both()
    os.close(out)
