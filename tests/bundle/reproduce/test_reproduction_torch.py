"""Reproductions of traces of transformers: scripts that need nothing but transformers and torch."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys

import pytest
from msgspec.structs import replace

from mlxdiag.bundle.reproduce import reproduction
from mlxdiag.bundle.reproduce.reproduction import CONTROL, REPRO, SMALL
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import parse, read
from mlxdiag.traces.types import Trace
from tests.samples.expected import FOLDER

HEADER = 'environment: {"libraries": {"torch": "2.13.0", "transformers": "5.24.0"}}\n'
LIBRARIES = {"libraries": {"torch": "2.13.0", "transformers": "5.24.0"}}
MLX = read(FOLDER / "gpt-oss-one-pass.yaml")
CAPPED = Trace(replace(MLX.header, environment=LIBRARIES), MLX.entries)
SHORT = parse(
    HEADER
    + """\
model: {architecture: llama, layers: {full: {attention: full, cache: dense}}}
steps:
- {step: 1, phase: prefill, rows: [{seq: a, offset: 0, tokens: 40}]}
- {step: 2, phase: decode, rows: [{seq: a, offset: 40, tokens: 1}], attention: [{family: full, cache: dense,
   offset: 40, q: 1, k: 41, mask: [1, 1, 1, 41], key_padding: 1}]}
- {step: 3, phase: decode, rows: [{seq: a, offset: 41, tokens: 1}], attention: [{family: full, cache: dense,
   offset: 41, q: 1, k: 42, mask: [1, 1, 1, 42], key_padding: 1}]}
"""
)
"""A loop that passes `torch.ones_like(token)` as the attention mask of each decode step."""
ALONE = """\
import runpy, sys
sys.modules |= dict.fromkeys(("mlx", "mlx_lm", "mlxdiag"))  # importing one of them raises
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def make(trace):
    return reproduction.make(trace, inspect_trace(trace), True, lambda _: None)


@pytest.fixture(scope="module")
def capped():
    return make(CAPPED)


@pytest.fixture(scope="module")
def short():
    return make(SHORT)


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """Exit code and output of a script in this process, which has the libraries imported already."""
    from transformers.modeling_utils import AttentionInterface

    def run(source):
        # A script puts its own function there for as long as it runs.
        monkeypatch.setattr(AttentionInterface, "get_interface", AttentionInterface.get_interface)
        path = tmp_path / "script.py"
        path.write_bytes(source)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        monkeypatch.undo()
        return ended.value.code, capsys.readouterr().out

    return run


def test_the_script_fails_with_the_librarys_own_error_where_nothing_else_can_be_imported(capped, tmp_path):
    (tmp_path / "repro.py").write_bytes(capped.members[REPRO])
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, "repro.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "The size of tensor a (3) must match the size of tensor b (2)" in done.stdout


def test_its_control_passes_and_so_does_the_script_once_the_mask_is_the_librarys(capped, ran):
    code, out = ran(capped.members[CONTROL])
    assert code == 0, out
    fixed, count = re.subn(rb", masks=\{\([^}]*\}", b"", capped.members[REPRO])
    assert count == 1
    code, out = ran(fixed)
    assert (code, out.splitlines()[-1]) == (0, "OK: the fault is not there")


def test_it_names_the_library_of_the_trace(capped):
    assert any("needs only transformers and torch" in line for line in capped.sentences)
    assert "not in transformers" in capped.short[-1]
    assert parse(capped.members[SMALL].decode()).header.environment == LIBRARIES
    assert not re.search(r"mlx(?!diag)", " ".join((*capped.sentences, *capped.short)))


def test_the_other_attention_is_tried_where_the_library_has_it(capped, short):
    refused = {one.name: one for one in capped.controls}["attention-sdpa"]
    assert (refused.result, "does not support" in refused.reason) == ("not tried", True)
    results = {one.name: one.result for one in short.controls}
    assert results["attention-eager"] == "fails"
    assert results["single-pass"] == results["chunk-1"] == "passes"


def test_a_2d_mask_of_one_column_is_passed_again(short, ran):
    assert (short.missing, short.headline.code) == ({}, "MD111")
    assert b", columns=1)" in short.members[REPRO]
    assert codes(inspect_trace(parse(short.members[SMALL].decode())).findings) == {"MD111"}
    code, out = ran(short.members[REPRO].replace(b", columns=1)", b")"))
    assert (code, out.splitlines()[-1]) == (0, "OK: the fault is not there")


@pytest.mark.parametrize(
    ("trace", "absent", "said"),
    [
        (
            CAPPED,
            "transformers",
            "transformers is not installed here, so nothing could be run; pip install tr",
        ),
        (CAPPED, "torch", "the trace is of transformers, and torch is not installed"),
        (MLX, "mlx_lm", "the trace is of mlx-lm, and mlx_lm is not installed"),
    ],
)
def test_without_the_library_of_the_trace_every_part_says_what_to_install(trace, absent, said, monkeypatch):
    monkeypatch.setattr(reproduction, "find_spec", lambda name: None if name == absent else object())
    made = make(trace)
    assert set(made.missing) == {REPRO, CONTROL, SMALL}
    assert all(said in reason for reason in made.missing.values())
    assert {one.reason for one in made.controls} == {made.missing[REPRO]}
