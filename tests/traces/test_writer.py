"""What is written comes back, through every reader."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings

from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.traces.reader import parse, read
from mlxdiag.traces.types import Entry, Header, Row, Trace
from mlxdiag.traces.writer import Appender, Writer, dump
from tests.traces.strategies import traces

ONE = Entry(step=1, phase="prefill", rows=[Row(seq="a", offset=0, tokens=8)])
TWO = Entry(step=2, phase="decode", rows=[Row(seq="a", offset=8, tokens=1)])


def written(trace: Trace) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.yaml")
        dump(trace, path)
        return path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(traces)
def test_written_trace_reads_equal(trace: Trace) -> None:
    assert parse(written(trace).decode()) == trace


@settings(max_examples=100, deadline=None)
@given(traces)
def test_plain_yaml_reader_sees_what_json_says(trace: Trace) -> None:
    document = yaml.safe_load(written(trace))
    expected: list[Any] = [msgspec.to_builtins(entry) for entry in trace.entries]
    # Tuples are lists to YAML; everything else must be the same object, floats included.
    assert (document["steps"] or []) == msgspec.json.decode(msgspec.json.encode(expected))
    assert document["schema"] == "mlxdiag.trace/1"


def test_yaml_styles_of_floats_and_line_separators(tmp_path: Path) -> None:
    config = {
        "eps": 1e-7,
        "big": 1e16,
        "one": 1.0,
        "odd": 5e-324,
        "text": 'a\u2028b\x85c\x7f\ufeff 1e-7 "2e5"',
    }
    dump(Trace(Header(), [Entry(config=config)]), tmp_path / "t.yaml")
    assert yaml.safe_load((tmp_path / "t.yaml").read_bytes())["steps"][0]["config"] == config
    assert read(tmp_path / "t.yaml").entries[0].config == config
    assert b'"eps": 1.0e-07' in (tmp_path / "t.yaml").read_bytes()


def test_text_stays_readable_utf8(tmp_path: Path) -> None:
    dump(Trace(Header(note="größer 模型"), []), tmp_path / "t.yaml")
    assert "größer 模型".encode() in (tmp_path / "t.yaml").read_bytes()


def test_half_surrogates_become_question_marks(tmp_path: Path) -> None:
    dump(Trace(Header(source={"argv": "\udcff"}), [Entry(note="\udcff")]), tmp_path / "t.yaml")
    assert read(tmp_path / "t.yaml").entries[0].note == "?"


def test_each_entry_is_one_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: (calls.append(bytes(data)), real(file, data))[1])
    with Writer(tmp_path / "t.yaml", Header()) as writer:
        writer.write(ONE)
        writer.write(TWO)
    assert len(calls) == 3
    assert all(call.endswith(b"\n") for call in calls)


def test_killed_process_loses_nothing_it_wrote(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from mlxdiag.traces.writer import Writer\n"
        "from mlxdiag.traces.types import Entry, Header\n"
        "writer = Writer(sys.argv[1], Header())\n"
        "for step in range(20): writer.write(Entry(step=step))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "t.yaml")], check=False)
    assert done.returncode == -9
    trace = read(tmp_path / "t.yaml")
    assert [entry.step for entry in trace.entries] == list(range(20))
    assert not trace.truncated


def test_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("precious")
    with pytest.raises(UsageError, match=r"t\.yaml: exists already; --force"):
        dump(Trace(Header(), [ONE]), path)
    assert path.read_text() == "precious"
    dump(Trace(Header(), [ONE]), path, force=True)
    assert read(path).entries == [ONE]


def test_unwritable_place_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        dump(Trace(Header(), []), tmp_path / "missing" / "t.yaml")
    with pytest.raises(UsageError, match="cannot be written"):
        dump(Trace(Header(), []), "a\0b")
    for force in (False, True):
        with pytest.raises(UsageError, match="s a directory"):
            dump(Trace(Header(), []), tmp_path, force)


def test_closed_writer_refuses(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "t.yaml", Header())
    writer.close()
    writer.close()
    with pytest.raises(UsageError, match="closed already"):
        writer.write(ONE)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_full_disk_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="/dev/full: cannot be written: No space left on device"):
        Writer("/dev/full", Header())


def test_entry_cut_off_by_a_full_disk_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.write, [40]

    def write(file: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        taken = real(file, data[: room[0]])
        room[0] -= taken
        return taken

    writer = Writer(tmp_path / "t.yaml", Header())
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(UsageError, match="No space left"):
            writer.write(ONE)
    writer.write(TWO)
    writer.close()
    assert read(tmp_path / "t.yaml").entries == [TWO]


def test_compressed_file_reads_equal(tmp_path: Path) -> None:
    trace = Trace(Header(note="x"), [ONE, TWO] * 1000)
    dump(trace, tmp_path / "t.yaml.zst")
    assert read(tmp_path / "t.yaml.zst") == trace
    assert (tmp_path / "t.yaml.zst").stat().st_size < 20_000


def test_append_goes_on_in_the_files_indentation(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("schema: mlxdiag.trace/1\nsteps:\n  - step: 1\n    phase: prefill")
    with Appender(path) as appender:
        appender.write(TWO)
    assert read(path).entries == [Entry(step=1, phase="prefill"), TWO]
    assert [step["step"] for step in yaml.safe_load(path.read_text())["steps"]] == [1, 2]


def test_append_drops_the_line_a_crash_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    dump(Trace(Header(), [ONE, TWO]), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert read(path).truncated
    with Appender(path) as appender:
        appender.write(TWO)
    assert read(path) == Trace(Header(), [ONE, TWO])


def test_append_to_a_header_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("schema: mlxdiag.trace/1\nsteps:")
    with Appender(path) as appender:
        appender.write(ONE)
    assert read(path).entries == [ONE]


def test_append_refuses_what_no_line_can_follow(tmp_path: Path) -> None:
    dump(Trace(Header(), [ONE]), tmp_path / "t.yaml.zst")
    (tmp_path / "ended.yaml").write_text("schema: mlxdiag.trace/1\nsteps:\n- step: 1\n...\n")
    (tmp_path / "flow.yaml").write_text("{schema: mlxdiag.trace/1, steps: []}")
    (tmp_path / "broken.yaml").write_text('schema: mlxdiag.trace/1\nsteps:\n- {"step": 1\n- {}\n')
    for name in ("t.yaml.zst", "ended.yaml", "flow.yaml"):
        with pytest.raises(UsageError, match="cannot be appended to"):
            Appender(tmp_path / name)
    with pytest.raises(UnreadableError, match="step 1"):
        Appender(tmp_path / "broken.yaml")
