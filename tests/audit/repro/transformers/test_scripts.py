"""Scripts for transformers: they show a fault while it is there, and nothing where there is none."""

import re
import runpy

import pytest
import torch

from mlxdiag.audit import repro
from mlxdiag.audit.schedules import schedules
from mlxdiag.traces.reader import parse
from tests.audit.libraries.torch_cells import cell, family

from mlxdiag.audit.cell import Cell  # isort: skip
from transformers import masking_utils  # isort: skip


def written(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    return path


def ran(path):
    """The exit code in this process, which has the library imported already."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


def control(name, scenario, codes):
    """The script of a schedule that is right, looking at what these codes are about."""
    held = Cell(library="transformers", family=name, scenario=scenario, result="fail", codes=codes)
    return repro.script(held, control=schedules.build(scenario, family(name)[0]))


def test_a_fault_is_shown_by_its_script_alone(tmp_path):
    path = written(tmp_path, repro.script(cell("gemma3_text", "crop-after-crop")))
    done = repro.confirm(path)
    assert done.code == 1, done.output
    assert "FAULT" in done.output
    imported = set(re.findall(r"^ *(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    assert imported <= {"copy", "hashlib", "inspect", "io", "os", "sys", "warnings", "torch", "transformers"}


@pytest.mark.parametrize(
    ("name", "scenario", "codes"),
    [
        ("gemma3_text:eager", "left-padding-as-heads", ["MD302"]),
        ("gemma3_text", "static-chunks", ["MD402"]),
        ("gpt_oss", "adopt-trimmed-prefix", ["MD302"]),
        ("llama", "rows-leave", ["MD402"]),
        ("llama", "save-and-load", ["MD402"]),
        ("gemma3_text", "speculative-after-wrap", ["MD302"]),
    ],
)
def test_what_is_right_is_said_to_be_right(tmp_path, capsys, name, scenario, codes):
    assert ran(written(tmp_path, control(name, scenario, codes))) == 0
    assert "OK: the fault is not there" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gemma3_text", "gpt_oss", "llama", "recurrent_gemma", "step3p5"])
def test_the_weights_of_a_script_are_those_of_the_audit(tmp_path, name):
    script = runpy.run_path(str(written(tmp_path, control(name, "decode-across-window", ["MD402"]))))
    made = dict(script["build"]().named_parameters())
    audited = dict(family(name)[0].model.named_parameters())
    assert made.keys() == audited.keys()
    # Draws of another order of multiplication: equal up to rounding.
    assert all(torch.allclose(made[key], audited[key], rtol=1e-5, atol=1e-7) for key in made)


@pytest.mark.parametrize(
    ("name", "scenario", "made"),
    [
        ("gemma3_text", "static-chunks", "StaticCache"),
        ("llama", "quantized-cache", "QuantizedCache"),
        ("llama", "chunks-not-dividing", "DynamicCache"),
    ],
)
def test_a_script_runs_on_the_cache_that_its_scenario_is_about(name, scenario, made):
    assert f"self.cache, self.mask = {made}(" in control(name, scenario, ["MD402"])


def test_a_window_one_too_wide_is_seen_by_sight(tmp_path, monkeypatch, capsys):
    path = written(tmp_path, control("gemma3_text", "chunks-above-window", ["MD302"]))
    right = masking_utils.sliding_window_overlay
    monkeypatch.setattr(masking_utils, "sliding_window_overlay", lambda window: right(window + 1))
    assert ran(path) == 1
    out = capsys.readouterr().out
    assert "expected: layer 0 (sliding): position 8 of sequence a sees 1..8" in out
    assert "seen:     layer 0 (sliding): position 8 of sequence a sees 0..8" in out


@pytest.mark.parametrize(("scenario", "code"), [("continuous-batching", 0), ("prompt-lookup", 0)])
def test_the_loops_have_scripts_of_their_own(tmp_path, capsys, scenario, code):
    trace = schedules.build("fresh-within-window", family("gemma3_text")[0])
    trace.header.source["scenario"] = scenario
    held = Cell(
        library="transformers", family="gemma3_text", scenario=scenario, result="fail", codes=["MD402"]
    )
    path = written(tmp_path, repro.script(held, control=trace))
    assert ran(path) == code
    assert "OK: the fault is not there" in capsys.readouterr().out


def test_a_loop_that_crops_too_little_is_shown(tmp_path, monkeypatch):
    from transformers import cache_utils

    trace = schedules.build("fresh-within-window", family("llama")[0])
    trace.header.source["scenario"] = "prompt-lookup"
    held = Cell(
        library="transformers", family="llama", scenario="prompt-lookup", result="fail", codes=["MD402"]
    )
    path = written(tmp_path, repro.script(held, control=trace))
    right = cache_utils.DynamicLayer.crop
    monkeypatch.setattr(cache_utils.DynamicLayer, "crop", lambda self, n: right(self, min(n + 1, 0)))
    assert ran(path) == 1


WITHOUT_CACHE = """schema: mlxdiag.trace/1
environment: {libraries: {transformers: 5.24.0}}
scheduler: {cacheless: true}
model: {architecture: gemma3_text, layers: {sliding: {attention: sliding, window: 8}}}
steps:
- rows: [{seq: a, offset: 0, tokens: 12}, {seq: b, offset: 0, tokens: 5, left_padding: 7}]
- rows: [{seq: a, offset: 0, tokens: 13}, {seq: b, offset: 0, tokens: 6, left_padding: 7}]
- rows: [{seq: c, offset: 0, tokens: 9}]
- rows: [{seq: c, offset: 0, tokens: 10}]
"""


def test_passes_without_a_cache_are_whole_ones(tmp_path, capsys):
    text = repro.of_trace(parse(WITHOUT_CACHE), source="t.yaml", codes=("MD402",), passes=True)
    assert "run.feed(None, {'c'" in text
    assert ran(written(tmp_path, text)) == 0
    assert "OK: the fault is not there" in capsys.readouterr().out
    unmasked = text.replace("held.cache = None", "return None")
    assert ran(written(tmp_path, unmasked)) == 1, "the mask alone hides the padding"
