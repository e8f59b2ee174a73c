"""`mlxdiag shrink`: files, formats, what it refuses."""

from __future__ import annotations

import json

import pytest

from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse, read
from tests.cli.program import call
from tests.samples.expected import FOLDER

SAMPLE = FOLDER / "qwen3-key-cap.yaml"


def test_the_smallest_trace_and_its_control_are_written(capsys, tmp_path):
    small, control = tmp_path / "small.yaml", tmp_path / "control.yaml"
    before = SAMPLE.read_bytes()
    done = call(capsys, "shrink", str(SAMPLE), "-o", str(small), "--control", str(control))
    assert done.code == 0
    assert SAMPLE.read_bytes() == before
    assert "4 steps, 2048 tokens -> 2 steps, 3 tokens" in done.out
    assert "MD901 because of MD102, MD106" in done.out
    assert f"next: mlxdiag inspect {small}" in done.out
    assert codes(inspect_trace(read(small)).findings) == {"MD901", "MD102", "MD106"}
    assert not inspect_trace(read(control)).findings


def test_without_a_file_the_trace_goes_to_standard_output(capsys, tmp_path):
    done = call(capsys, "shrink", str(SAMPLE))
    assert done.code == 0
    assert "MD901" in codes(inspect_trace(parse(done.out)).findings)
    assert "2 steps, 3 tokens" in done.err


def test_json_says_what_was_done(capsys, tmp_path):
    done = call(capsys, "shrink", str(SAMPLE), "-o", str(tmp_path / "small.yaml"), "--format", "json")
    told = json.loads(done.out)
    assert told["schema"] == "mlxdiag.shrink/1"
    assert told["oracle"] == "inspect"
    assert told["before"] == {"steps": 4, "tokens": 2048}
    assert told["after"] == {"steps": 2, "tokens": 3}
    assert told["kept"] == [1, 4]
    assert told["fires"] == ["MD901 because of MD102, MD106"]


def test_a_code_chooses_another_finding(capsys, tmp_path):
    small = tmp_path / "small.yaml"
    done = call(
        capsys, "shrink", str(FOLDER / "gemma4-chunked-prefill.yaml"), "-o", str(small), "--code", "md203"
    )
    assert done.code == 0
    assert "MD203 because of MD206" in done.out
    assert {"MD203", "MD206"} <= codes(inspect_trace(read(small)).findings)


def test_a_replay_counts_its_runs_and_resumes(capsys, tmp_path):
    state, small = tmp_path / "state.jsonl", tmp_path / "small.yaml"
    args = ("shrink", FOLDER / "gpt-oss-one-pass.yaml", "--replay", "--resume", state, "--format", "json")
    first = json.loads(call(capsys, *map(str, args), "-o", str(small)).out)
    assert first["oracle"] == "replay"
    assert 1 < first["runs"] <= 60
    answers = state.read_bytes()
    again = json.loads(call(capsys, *map(str, args), "-o", str(small), "--force").out)
    assert again == first
    assert state.read_bytes() == answers, "nothing was run twice"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("traces/gpt-oss-one-pass.yaml", "--code", "MD999"), 2, "there is no rule 'MD999'"),
        (
            ("traces/gpt-oss-one-pass.yaml", "-o", "traces/gpt-oss-one-pass.yaml", "--force"),
            2,
            "both an input",
        ),
        (("traces/gpt-oss-one-pass.yaml", "-o", "x.yaml", "--control", "x.yaml"), 2, "different files"),
        (("nowhere.yaml",), 3, "nowhere.yaml"),
        (
            ("traces/gpt-oss-one-pass.yaml", "--code", "MD304"),
            4,
            "does not show MD304, but MD901 because of MD101, MD107: nothing to shrink",
        ),
    ],
)
def test_what_cannot_be_shrunk_is_said_in_one_line(capsys, args, code, said, monkeypatch):
    monkeypatch.chdir(FOLDER.parent)
    done = call(capsys, "shrink", *map(str, args))
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err
