import json
import re
import zipfile

import pytest

from tests.cli.program import BROKEN, HEAD, HEALTHY, SHORT_MASK, call, start

AUDIT = {
    "schema": "mlxdiag.audit/1",
    "libraries": {"mlx-lm": "0.32.2"},
    "device": "cpu",
    "families": 1,
    "cells": [{"library": "mlx-lm", "family": "gemma2", "scenario": "no-cache", "result": "pass"}],
}


def test_a_trace_becomes_a_page(trace, capsys, tmp_path):
    ran = call(capsys, "report", trace(HEALTHY, SHORT_MASK), "-o", "out.html")
    assert ran.code == 0
    assert "mask shorter than keys: step 2" in (tmp_path / "out.html").read_text()
    assert ran.out == ""


def test_an_audit_becomes_a_page(trace, capsys, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(AUDIT))
    trace()
    assert call(capsys, "report", "a.json", "-o", "out.html").code == 0
    assert "gemma2, no-cache: pass" in (tmp_path / "out.html").read_text()


def test_an_audit_whose_first_cell_holds_a_trace_is_an_audit(trace, capsys, tmp_path):
    wrong = {**AUDIT["cells"][0], "trace": "schema: mlxdiag.trace/1\nsteps: []\n"}
    (tmp_path / "a.json").write_text(json.dumps({**AUDIT, "cells": [wrong]}))
    trace()
    assert call(capsys, "report", "a.json", "-o", "out.html").code == 0
    assert "gemma2, no-cache: pass" in (tmp_path / "out.html").read_text()


def test_a_bundle_becomes_a_page(trace, capsys, tmp_path):
    assert call(capsys, "bundle", trace(HEALTHY, SHORT_MASK), "-o", "b.zip").code in (0, 1)
    assert call(capsys, "report", "b.zip", "-o", "out.html").code == 0
    text = (tmp_path / "out.html").read_text()
    assert "mask shorter than keys: step 2" in text
    assert "What was tried" in text


def test_a_zip_without_a_trace_is_no_bundle(trace, capsys, tmp_path):
    trace()
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    ran = call(capsys, "report", "b.zip")
    assert ran.code == 3
    assert "b.zip: holds no trace.yaml" in ran.err


def test_a_trace_that_is_cut_off_and_one_of_a_newer_kind_are_said_to_be_so(trace, capsys, tmp_path):
    (tmp_path / trace(HEALTHY, name="cut.yaml")).write_text(HEAD + HEALTHY + SHORT_MASK[:40])
    assert "The trace is cut off" in call(capsys, "report", "cut.yaml").out
    newer = trace(HEALTHY.replace('"step": 1', '"step": 1, "newer": 1'), name="newer.yaml")
    assert "warning: " in call(capsys, "report", newer).err


def test_the_size_of_a_written_page_is_told(trace, capsys):
    ran = call(capsys, "report", trace(HEALTHY), "-o", "out.html")
    assert re.search(r"out\.html: \d+ KiB", ran.err)


def test_a_trace_in_the_braces_of_json_is_no_audit(trace, capsys, tmp_path):
    """The schema tells them apart: both are one mapping."""
    trace()
    (tmp_path / "t.json").write_text('{"schema": "mlxdiag.trace/1", "steps": []}')
    assert call(capsys, "report", "t.json").code == 0


def test_without_an_output_the_page_goes_to_standard_output(trace, capsys):
    ran = call(capsys, "report", trace(HEALTHY))
    assert ran.code == 0
    assert ran.out.startswith("<!DOCTYPE html>\n")


def test_equal_traces_give_equal_pages(trace, capsys):
    name = trace(HEALTHY, SHORT_MASK)
    assert call(capsys, "report", name).out == call(capsys, "report", name).out


def test_standard_input_is_read(trace):
    name = trace(HEALTHY, SHORT_MASK)
    with open(name) as opened:
        ran = start("report", "-", stdin=opened)
    assert ran.returncode == 0
    assert "&lt;stdin&gt;" in ran.stdout


def test_a_page_is_not_overwritten_without_force(trace, capsys, tmp_path):
    name = trace(HEALTHY)
    (tmp_path / "out.html").write_text("mine")
    assert call(capsys, "report", name, "-o", "out.html").code == 2
    assert (tmp_path / "out.html").read_text() == "mine"
    assert call(capsys, "report", name, "-o", "out.html", "--force").code == 0


def test_the_trace_itself_is_never_the_output(trace, capsys, tmp_path):
    name = trace(HEALTHY)
    before = (tmp_path / name).read_text()
    assert call(capsys, "report", name, "-o", name, "--force").code == 2
    assert (tmp_path / name).read_text() == before


@pytest.mark.parametrize("text", ["{}", '{"schema": "mlxdiag.findings/1"}', "[1, 2", "steps: [1]", ""])
def test_what_is_neither_is_unreadable(text, trace, capsys, tmp_path):
    trace()
    (tmp_path / "x").write_text(text)
    ran = call(capsys, "report", "x", "-o", "out.html")
    assert ran.code == 3
    assert not (tmp_path / "out.html").exists()


def test_a_broken_entry_leaves_no_page(trace, capsys, tmp_path):
    ran = call(capsys, "report", trace(HEALTHY, BROKEN), "-o", "out.html")
    assert ran.code == 3
    assert not (tmp_path / "out.html").exists()


def test_a_missing_file_is_named(trace, capsys):
    trace()
    ran = call(capsys, "report", "nowhere.yaml")
    assert ran.code == 3
    assert "nowhere.yaml: no such file" in ran.err


def test_controls_that_were_changed_since_are_not_drawn(trace, capsys, tmp_path):
    trace(SHORT_MASK)
    assert call(capsys, "bundle", "t.yaml", "-o", "b.zip", "--no-replay").code == 0
    with zipfile.ZipFile("b.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["controls.json"] = members["controls.json"].replace(b"not tried", b"passes")
    with zipfile.ZipFile("b.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    ran = call(capsys, "report", "b.zip", "-o", "out.html")
    assert ran.code == 3
    assert "controls.json was changed after the bundle was made" in ran.err
