"""One whole reproduction on real model code; what stands in its way, without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlxdiag.bundle.reproduce import reproduction
from mlxdiag.bundle.reproduce.reproduction import CONTROL, REPRO, SMALL
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse, read
from tests.samples.expected import FOLDER

TRACE = read(FOLDER / "gpt-oss-one-pass.yaml")


def make(trace=TRACE, wanted=True):
    return reproduction.make(trace, inspect_trace(trace), wanted, lambda _: None)


@pytest.fixture(scope="module")
def whole():
    return make()


def ran(source: bytes, folder) -> subprocess.CompletedProcess[str]:
    """In an empty folder, where only what is installed can be imported."""
    script = folder / "script.py"
    script.write_bytes(source)
    return subprocess.run(
        [sys.executable, "-I", script], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_script_fails_as_told_and_its_control_passes(whole, tmp_path):
    repro, control = ran(whole.members[REPRO], tmp_path), ran(whole.members[CONTROL], tmp_path)
    assert (repro.returncode, control.returncode) == (1, 0)
    assert "Shapes (3,2) and (1,4,3,3)" in repro.stdout
    assert b"mlxdiag" not in whole.members[REPRO].split(b'"""')[-1]


def test_the_smallest_schedule_is_beside_them(whole):
    small = parse(whole.members[SMALL].decode())
    assert codes(inspect_trace(small).findings) >= {"MD901", "MD107"}


def test_what_the_scripts_printed_here_is_told(whole):
    assert any("Shapes (3,2) and (1,4,3,3)" in line for line in whole.sentences)
    assert whole.headline.code == "MD901"
    assert whole.missing == {}


def test_without_a_replay_every_part_says_why_it_is_missing():
    made = make(wanted=False)
    assert set(made.missing) == {REPRO, CONTROL, SMALL}
    assert {one.result for one in made.controls} == {"not tried"}
    assert {one.reason for one in made.controls} == {"--no-replay was given"}


def test_without_mlx_every_part_says_what_to_install(monkeypatch):
    monkeypatch.setattr(reproduction, "find_spec", lambda name: None if name == "mlx" else object())
    made = make()
    assert "pip install mlx-lm" in made.missing[REPRO]
    assert "mlx is not installed" in made.sentences[0]


def test_a_script_that_does_not_show_the_fault_is_left_out(monkeypatch):
    from mlxdiag.audit import repro

    monkeypatch.setattr(repro, "confirm", lambda path: repro.Confirmed(0, "OK"))
    made = make()
    assert REPRO not in made.members
    assert "did not fail here (exit code 0: OK)" in made.missing[REPRO]
    assert SMALL in made.members


def test_a_script_that_breaks_is_no_script_that_fails(monkeypatch):
    from mlxdiag.audit import repro

    broken = 'Traceback (most recent call last):\n  File "/Users/zorblax/x.py", line 3\nKeyError: 3'
    monkeypatch.setattr(repro, "confirm", lambda path: repro.Confirmed(1, broken))
    made = make()
    assert REPRO not in made.members
    assert "zorblax" not in str(made)


def test_without_a_fault_there_is_nothing_to_reproduce():
    healthy = read(FOLDER / "gpt-oss-one-pass-healthy.yaml")
    assert make(healthy).missing[REPRO] == reproduction.NO_FAULT


CROPPED = """
scheduler: {misfit: "crop:old"}
model: {architecture: gpt_oss, layers: {sliding: {attention: sliding, window: 2}, full: {attention: full}}}
steps:
- {step: 1, phase: prefill, rows: [{seq: a, offset: 0, tokens: 3}]}
- {step: 2, phase: chunk, rows: [{seq: a, offset: 3, tokens: 2}],
   mask: {shape: [2, 5], source: scheduler, offset: 3}, attention: [{family: sliding, cache: rotating,
   offset: 3, q: 2, k: 3, mask: [2, 5], fate: cropped, crop: old}]}
"""


def test_a_warning_that_a_run_proves_to_be_a_fault_gets_its_scripts(tmp_path):
    trace = parse(CROPPED)
    assert {finding.severity for finding in inspect_trace(trace).findings} == {"warning"}
    made = make(trace)
    repro, control = ran(made.members[REPRO], tmp_path), ran(made.members[CONTROL], tmp_path)
    assert (repro.returncode, control.returncode) == (1, 0)
    assert made.headline.code == "MD102"
    assert {one.name: one.result for one in made.controls}["as-recorded"] == "fails"
    assert made.short[1].startswith("The smallest schedule that fails: sliding window ")


def test_a_warning_about_shapes_that_harm_nobody_says_so():
    dropped = """
scheduler: {misfit: "discard:windowed"}
model: {architecture: gpt_oss, layers: {sliding: {attention: sliding, window: 2}, full: {attention: full}}}
steps:
- {step: 1, phase: prefill, rows: [{seq: a, offset: 0, tokens: 3}]}
- {step: 2, phase: chunk, rows: [{seq: a, offset: 3, tokens: 2}],
   mask: {shape: [2, 2], source: scheduler, offset: 0}, attention: [{family: sliding, cache: rotating,
   offset: 3, q: 2, k: 3, mask: [2, 2], fate: discarded, fallback: windowed}]}
"""
    trace = parse(dropped)
    assert {finding.severity for finding in inspect_trace(trace).findings} == {"warning"}
    made = make(trace)
    assert REPRO not in made.members
    assert made.missing[REPRO].startswith("MD101 is a warning here, and a run of the smallest schedule")
    assert {one.name: one.result for one in made.controls}["as-recorded"] == "passes"
