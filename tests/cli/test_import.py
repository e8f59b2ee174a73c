"""`mlxdiag import`: three commands from a pasted line to a verdict, and every way that it can be refused."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mlxdiag.traces.reader import read
from tests.cli.program import call, start

SPAN = "chunked_prefill_continue{seq_id=seq-6 offset=2048 total=2201}"
WARNING = f"mask_len=160 key_len=671 query_len=160 ... {SPAN}\n"
NAMED = WARNING.replace("...", "mlxcel::models::gemma4: trim_mask_to_keys: discarding caller mask")
CONFIG = {"model_type": "gemma4_text", "sliding_window": 512, "num_hidden_layers": 12, "vocab_size": 1000}


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A pasted warning and a config in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.txt").write_text(NAMED)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return "log.txt"


def test_a_pasted_line_becomes_a_trace_a_finding_and_a_plan(log, capsys):
    assert call(capsys, "import", log, "-o", "trace.yaml").code == 0
    judged = call(capsys, "inspect", "trace.yaml", "--format", "json")
    (finding,) = json.loads(judged.out)["findings"]
    assert (finding["code"], finding["severity"]) == ("MD101", "warning")
    assert any(cause.startswith("MD105") for cause in finding["cause"])
    plan = call(capsys, "replay", "trace.yaml", "--plan")
    assert plan.code == 0
    assert "gemma4_text" in plan.out


def test_without_an_output_the_trace_is_the_result(log, capsys, tmp_path):
    ran = call(capsys, "import", log)
    (tmp_path / "t.yaml").write_text(ran.out)
    assert read("t.yaml").header.source["importer"] == "mlxcel"
    assert "mlxcel 1" in ran.err
    assert "inferred, not read: " in ran.err


def test_what_was_left_out_is_counted(log, capsys, tmp_path):
    (tmp_path / log).write_text("a line\n" + NAMED + "another\nINFO mlxcel::server: listening\n")
    err = call(capsys, "import", log).err
    assert "left out: 2 lines of no known format" in err
    assert "left out: 1 record without numbers (mlxcel 1)" in err


def test_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NAMED.encode())))
    assert '"k": 671' in call(capsys, "import", "-").out


def test_several_logs(log, capsys, tmp_path):
    (tmp_path / "more.txt").write_text(NAMED.replace("seq-6", "seq-7"))
    out = call(capsys, "import", log, "more.txt").out
    assert "seq-6" in out
    assert "seq-7" in out


def test_a_config_names_the_model(log, capsys):
    out = call(capsys, "import", log, "--config", "config.json").out
    assert '"architecture": "gemma4_text"' in out
    assert '"count": 10' in out


@pytest.mark.parametrize("depth", [6, 60])
def test_a_config_of_another_size_than_the_familys_best_known_replays(log, capsys, tmp_path, depth):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": depth}))
    call(capsys, "import", log, "--config", "config.json", "-o", "trace.yaml")
    assert call(capsys, "inspect", "trace.yaml").code == 0
    plan = call(capsys, "replay", "trace.yaml", "--plan")
    assert plan.code == 0, plan.err


def test_a_folder_with_a_config_is_taken_for_it(log, capsys, tmp_path):
    assert '"count": 10' in call(capsys, "import", log, "--config", str(tmp_path)).out


def test_a_log_that_names_no_model_asks_for_one(log, capsys, tmp_path):
    (tmp_path / log).write_text(WARNING)
    ran = call(capsys, "import", log, "-o", "trace.yaml")
    assert "import again with --config config.json" in ran.err
    replayed = call(capsys, "replay", "trace.yaml")
    assert replayed.code == 3
    assert "architecture" in replayed.err


def test_an_existing_output_is_kept_without_force(log, capsys, tmp_path):
    (tmp_path / "trace.yaml").write_text("mine")
    ran = call(capsys, "import", log, "-o", "trace.yaml")
    assert ran.code == 2
    assert (tmp_path / "trace.yaml").read_text() == "mine"
    assert call(capsys, "import", log, "-o", "trace.yaml", "--force").code == 0


@pytest.mark.parametrize("source", ["log.txt", "config.json"])
def test_a_source_is_never_overwritten(log, capsys, source):
    ran = call(capsys, "import", log, "--config", "config.json", "-o", source, "--force")
    assert ran.code == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["none.txt"], "none.txt: No such file"),
        (["."], ".: Is a directory"),
        (["empty.txt"], "empty.txt: none of 0 lines"),
        (["words.txt"], "words.txt: none of 1 lines is of a known format (mlxcel, "),
        (["log.txt", "--config", "none.json"], "none.json: No such file"),
        (["log.txt", "--config", "words.txt"], "words.txt: not a config.json"),
        (["log.txt", "--config", "empty.json"], "num_hidden_layers"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(log, capsys, tmp_path, args, said):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "words.txt").write_text("words\n")
    (tmp_path / "empty.json").write_text("{}")
    ran = call(capsys, "import", *args)
    assert (ran.code, ran.out) == (3, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_compressed_output(log, capsys):
    assert call(capsys, "import", log, "-o", "trace.yaml.zst").code == 0
    assert read("trace.yaml.zst").entries


def test_the_installed_program_reads_a_pipe():
    ran = start("import", "-", input=NAMED)
    assert ran.returncode == 0
    assert ran.stdout.startswith("schema: mlxdiag.trace/1\n")
