"""`mlxdiag bundle`: what is written, what is refused, and what works without a framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

from mlxdiag.bundle import assemble
from tests.cli.program import call
from tests.samples.expected import FOLDER

SAMPLE = str(FOLDER / "gemma4-chunked-prefill.yaml")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def members(path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_zip_is_written_where_it_was_asked_for_and_everything_is_told(folder, capsys):
    done = call(capsys, "bundle", SAMPLE, "--no-replay", "-o", "report.zip")
    assert done.code == 0
    assert done.out == ""
    assert "missing: repro/repro.py: --no-replay was given" in done.err
    assert "nothing was sent anywhere" in done.err
    assert {
        "summary.md",
        "trace.yaml",
        "findings.json",
        "controls.json",
        "redaction.json",
        "MANIFEST",
    } <= set(members(folder / "report.zip"))


def test_a_bundle_that_names_no_fault_says_so(folder, capsys):
    done = call(capsys, "bundle", str(FOLDER / "gpt-oss-one-pass-healthy.yaml"), "--no-replay")
    assert done.code == 0
    assert "note: it names no fault: clean: no rule fired" in done.err
    assert "names no fault" not in call(capsys, "bundle", SAMPLE, "--no-replay", "--force").err


def test_without_a_name_it_is_bundle_zip_and_is_not_overwritten_unasked(folder, capsys):
    assert call(capsys, "bundle", SAMPLE, "--no-replay").code == 0
    before = (folder / "bundle.zip").read_bytes()
    again = call(capsys, "bundle", SAMPLE, "--no-replay", "--for", "mlx")
    assert again.code == 2
    assert "--force" in again.err
    assert (folder / "bundle.zip").read_bytes() == before
    assert call(capsys, "bundle", SAMPLE, "--no-replay", "--for", "mlx", "--force").code == 0
    assert (folder / "bundle.zip").read_bytes() != before


def test_a_preview_shows_the_summary_and_writes_nothing(folder, capsys):
    done = call(capsys, "bundle", SAMPLE, "--no-replay", "--preview")
    assert done.code == 0
    assert done.out.startswith("# gemma-4-e4b-it-qat-4bit")
    assert list(folder.iterdir()) == []


def test_logs_enter_cleaned(folder, capsys):
    (folder / "server.log").write_text("INFO: offset 2048 for 10.3.7.21\nwhat did Annabel say\n")
    done = call(capsys, "bundle", SAMPLE, "--no-replay", "--log", "server.log")
    assert done.code == 0
    assert "taken out: 1 x ipv4 (an IPv4 address)" in done.err
    assert members(folder / "bundle.zip")["logs/1.log"] == (
        "     1| INFO: offset 2048 for [address]\n     2| [line left out]\n"
    )


def test_what_is_left_in_stops_it_and_can_be_dropped(folder, capsys, monkeypatch):
    (folder / "a.log").write_text("INFO: peer 10.3.7.21\nINFO: offset 1\n")
    monkeypatch.setattr(assemble, "_log", lambda name, lines, cleaner: list(lines))
    stopped = call(capsys, "bundle", SAMPLE, "--no-replay", "--log", "a.log")
    assert stopped.code == 1
    assert "left in logs/1.log, line 1: an address" in stopped.err
    assert "10.3.7.21" not in stopped.err
    assert "--drop-refused" in stopped.err
    assert not (folder / "bundle.zip").exists()
    assert call(capsys, "bundle", SAMPLE, "--no-replay", "--log", "a.log", "--drop-refused").code == 0
    assert members(folder / "bundle.zip")["logs/1.log"] == "INFO: offset 1\n"


def test_an_unknown_project_a_missing_log_and_an_input_as_output_are_refused(folder, capsys):
    wrong = call(capsys, "bundle", SAMPLE, "--no-replay", "--for", "zorblax")
    assert wrong.code == 2
    assert "mlx-lm, mlx, mlxcel, mlx-vlm, vllm, transformers, llama.cpp" in wrong.err
    assert call(capsys, "bundle", SAMPLE, "--no-replay", "--log", "none.log").code == 3
    assert call(capsys, "bundle", "none.yaml", "--no-replay").code == 3
    (folder / "t.yaml").write_bytes((FOLDER / "gpt-oss-one-pass.yaml").read_bytes())
    same = call(capsys, "bundle", "t.yaml", "--no-replay", "-o", "t.yaml", "--force")
    assert same.code == 2
    assert "both an input and the output" in same.err


def test_only_a_whole_word_can_be_asked_to_stay(folder, capsys):
    for word in ("two words", ".", "10"):
        wrong = call(capsys, "bundle", SAMPLE, "--no-replay", "--keep", word)
        assert wrong.code == 2
        assert "--keep" in wrong.err


def test_a_model_gives_its_geometry_and_its_hashes(folder, capsys):
    (folder / "kestrel").mkdir()
    (folder / "kestrel" / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    (folder / "kestrel" / "model.safetensors").write_bytes(b"x")
    assert call(capsys, "bundle", SAMPLE, "--no-replay", "--model", "kestrel").code == 0
    card = json.loads(members(folder / "bundle.zip")["model.json"])
    assert card["from"] == "checkpoint"
    assert card["files"][0]["bytes"] == 1
    assert call(capsys, "bundle", SAMPLE, "--no-replay", "--force", "--model", "none").code == 2


BLOCKED = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mlx", "mlx_lm", "torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
import importlib.util
real = importlib.util.find_spec
def missing(name, *rest):
    return None if name in ("mlx", "mlx_lm", "torch") else real(name, *rest)
importlib.util.find_spec = missing
from mlxdiag.cli.main import run
run(sys.argv[1:])
"""


def test_it_works_without_mlx_and_torch(folder):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, "bundle", SAMPLE, "-o", "b.zip"],
        capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    inside = members(folder / "b.zip")
    assert "mlx is not installed here" in inside["summary.md"]
    assert {one["result"] for one in json.loads(inside["controls.json"])["controls"]} == {"not tried"}


def test_the_same_command_writes_the_same_bytes(folder, capsys):
    for name in ("a.zip", "b.zip"):
        assert call(capsys, "bundle", SAMPLE, "--no-replay", "-o", name).code == 0
    assert (folder / "a.zip").read_bytes() == (folder / "b.zip").read_bytes()


def test_a_bundle_of_transformers_is_read_by_every_verb_and_runs_on_torch(folder, capsys):
    trace = """\
source: {"program": "mlxdiag replay", "version": "0.1.0", "of": "/home/zorblax/secret/gpt-oss-one-pass.yaml"}
environment: {"device": "cpu", "libraries": {"torch": "2.13.0", "transformers": "5.24.0"}}
planted: "a caller's capped mask is handed to the sliding layers in place of the library's own"
model: {"architecture": "llama", "layers": {"full": {"attention": "full", "cache": "dense"}}}
steps:
- {"step": 1, "phase": "prefill", "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
- {"step": 2, "phase": "decode", "rows": [{"seq": "a", "offset": 4, "tokens": 1}], "attention": [{"family": "full", "cache": "dense", "offset": 4, "q": 1, "k": 5, "mask": [1, 1, 1, 5], "key_padding": 1}]}
"""  # noqa: E501  a line of a trace
    (folder / "t.yaml").write_text("schema: mlxdiag.trace/1\n" + trace)
    done = call(capsys, "bundle", "t.yaml", "--no-replay", "--for", "transformers")
    assert done.code == 0, done.err
    held = members(folder / "bundle.zip")
    assert "zorblax" not in "".join(held.values())
    assert "pip install mlxdiag transformers torch" in held["summary.md"]
    assert "built for" in json.loads(held["environment.json"])["here"]["torch"]
    assert call(capsys, "verify", "bundle.zip").code == 0
    assert "MD111" in call(capsys, "inspect", "bundle.zip").out
    assert call(capsys, "report", "bundle.zip", "-o", "report.html").code == 0
    done = call(capsys, "replay", "bundle.zip", "-o", "again.yaml")
    assert done.code == 1
    assert "cause: MD111 padding-mask-too-short" in done.out
    assert '"transformers"' in (folder / "again.yaml").read_text()
