"""Text that YAML and JSON readers agree on."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.types import Attention, Entry, Header, Model, Output, Parity, Row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-7, b"1.0e-07"),
        (-2.5e-12, b"-2.5e-12"),
        (1e16, b"1.0e+16"),
        (1e300, b"1.0e+300"),
        (0.1, b"0.1"),
        (3.0, b"3.0"),
        (math.nan, b".nan"),
        (math.inf, b".inf"),
        (-math.inf, b"-.inf"),
    ],
)
def test_floats_are_spelt_as_yaml_reads_them(value: float, text: bytes) -> None:
    line = entry_line(Entry(output=[Output(margin=value)]))
    assert line == b'- {"output": [{"margin": ' + text + b"}]}\n"
    assert repr(yaml.safe_load(line)[0]["output"][0]["margin"]) == repr(value)


@given(st.floats())
def test_every_float_survives_a_plain_yaml_reader(value: float) -> None:
    read = yaml.safe_load(entry_line(Entry(time=value)))[0]["time"]
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(time=math.nan),
        Entry(rows=[Row(logprob=math.nan)]),
        Entry(output=[Output(logprob=math.nan)]),
        Entry(output=[Output(parity=Parity(max_abs=math.nan))]),
        Entry(output=[Output(parity=Parity(margin=math.nan))]),
        Entry(output=[Output(parity=Parity(tolerance=math.nan))]),
        Entry(config={"rope": [{"base": math.nan}]}),
    ],
)
def test_nan_is_never_written_as_null(entry: Entry) -> None:
    assert b".nan" in entry_line(entry)
    assert b"null" not in entry_line(entry)


def test_nan_in_the_header_is_kept() -> None:
    header = Header(source={"x": math.inf}, model=Model(config={"y": math.nan}))
    fields = yaml.safe_load(header_text(header))
    assert fields["source"]["x"] == math.inf
    assert math.isnan(fields["model"]["config"]["y"])


def test_quoted_text_that_looks_like_a_float_is_left_alone() -> None:
    for note in ("1e-7", 'a "1e-7" 2e9', "NaN", '"Infinity"', "\\1e5"):
        assert yaml.safe_load(entry_line(Entry(note=note, time=math.nan)))[0]["note"] == note
        assert json.loads(entry_line(Entry(note=note))[2:])["note"] == note


def test_absent_fields_are_left_out_and_observed_null_is_kept() -> None:
    entry = Entry(step=1, attention=[Attention(mask=None), Attention()], rows=[Row(logprob=None)])
    assert (
        entry_line(entry)
        == b'- {"step": 1, "rows": [{"logprob": null}], "attention": [{"mask": null}, {}]}\n'
    )


def test_header_is_a_field_a_line_that_ends_in_steps() -> None:
    text = header_text(Header(source={"program": "p"}, note="n: x"))
    assert text == b'schema: mlxdiag.trace/1\nsource: {"program": "p"}\nnote: "n: x"\nsteps:\n'


def test_recorder_and_reader_need_neither_the_yaml_library_nor_a_framework(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('yaml', 'mlx', 'torch', 'numpy', 'rich', 'backports'): sys.modules[name] = None\n"
        "from mlxdiag.traces import reader, writer, diff, schema\n"
        "from mlxdiag.traces.types import Entry, Header, Trace\n"
        "trace = Trace(Header(note='x'), [Entry(step=1, time=1e-7)])\n"
        "writer.dump(trace, sys.argv[1])\n"
        "assert reader.read(sys.argv[1]) == trace\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "t.yaml")], check=True)
