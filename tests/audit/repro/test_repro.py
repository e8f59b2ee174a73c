"""Scripts that show a fault with mlx-lm alone: exit 1 while it is there, 0 once the library is mended."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest

from mlxdiag.audit import repro
from mlxdiag.audit.cell import Cell, Fault
from mlxdiag.audit.faults import text
from mlxdiag.audit.schedules import schedules
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.mlx import zoo
from mlxdiag.replay.shrink import shrink
from mlxdiag.replay.shrink.oracles import inspecting, signature
from mlxdiag.traces.reader import parse, read
from tests.samples.expected import FOLDER, SAMPLES

LIBRARY = Path(mlx_lm.__file__).parent


def cell(family, scenario, *codes):
    """A wrong cell as the audit writes it, without running the audit."""
    trace = schedules.build(scenario, zoo.tiny(family))
    return Cell(
        library="mlx-lm",
        family=family,
        scenario=scenario,
        result="fail",
        codes=list(codes),
        trace=text.of(trace),
    )


def performed(source):
    """The exit code of a script that is run in this process, and what it prints."""
    said = io.StringIO()
    kept = mx.fast.scaled_dot_product_attention
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as ended:
        exec(compile(source, "repro.py", "exec"), {"__name__": "__main__"})
    mx.fast.scaled_dot_product_attention = kept
    return ended.value.code, said.getvalue()


def mended(folder, *changes, file="models/gemma2.py"):
    """A copy of the library with lines of one file replaced."""
    shutil.copytree(LIBRARY, folder / "mlx_lm", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "mlx_lm" / file
    source = path.read_text()
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    path.write_text(source)
    return folder


def test_gemma2_ignores_its_window_until_it_is_mended(tmp_path):
    path = tmp_path / "repro.py"
    path.write_text(repro.script(cell("gemma2", "fresh-over-window", "MD108", "MD302")))
    there = repro.confirm(path)
    assert there.code == 1
    assert "expected: layer 0 (sliding): position 8 of sequence a sees 1..8" in there.output
    assert "seen:     layer 0 (sliding): position 8 of sequence a sees 0..8" in there.output
    window = (
        "            h = layer(h, mask, c)\n",
        "            w = 8 if layer is self.layers[0] or layer is self.layers[2] else None\n"
        "            m = create_attention_mask(h, c, window_size=w, return_array=True)\n"
        "            if m is None and w is not None and c.offset >= w:\n"
        "                m = mx.arange(c.offset + 1) > c.offset - w\n"
        "            h = layer(h, m, c)\n",
    )
    gone = repro.confirm(path, library=mended(tmp_path / "fixed", window))
    assert gone.code == 0, gone.output


def test_gemma2_crashes_on_a_padded_batch_until_it_is_mended(tmp_path):
    path = tmp_path / "repro.py"
    path.write_text(repro.script(cell("gemma2", "left-padding", "MD901")))
    there = repro.confirm(path)
    assert there.code == 1
    assert "expected: no exception" in there.output
    assert "cannot be broadcast" in there.output
    axis = (
        "        if mask is not None:\n",
        "        if mask is not None and mask.ndim == 4 and self.repeats > 1:\n"
        "            mask = mx.expand_dims(mask, 2)\n"
        "        if mask is not None:\n",
    )
    gone = repro.confirm(path, library=mended(tmp_path / "fixed", axis))
    assert gone.code == 0, gone.output


@pytest.mark.parametrize(
    ("family", "scenario", "codes", "file", "changes"),
    [
        (
            "afm7",
            "drafts",
            ["MD901"],
            "generate.py",
            [
                ("prompt_cache[: len(model.layers)]", "prompt_cache[: len(make_prompt_cache(model))]"),
                ("prompt_cache[len(model.layers) :]", "prompt_cache[len(make_prompt_cache(model)) :]"),
            ],
        ),
        (
            "mixtral",
            "drafts-quantized",
            ["MD305", "MD402"],
            "generate.py",
            [
                (
                    "        finally:\n            _rewind_cache(num_draft, n)\n",
                    "        finally:\n            _rewind_cache(num_draft, n)\n"
                    "            prompt_cache[:] = model_cache + draft_cache\n",
                )
            ],
        ),
        (
            "mixtral",
            "trie-exact",
            ["MD901"],
            "models/cache.py",
            [
                (
                    "            return copy.deepcopy(cache_entry.prompt_cache), []\n",
                    "            cache = copy.deepcopy(cache_entry.prompt_cache)\n"
                    "            trim_prompt_cache(cache, 1)\n            return cache, tokens[-1:]\n",
                )
            ],
        ),
    ],
)
def test_what_the_server_does_is_shown_until_it_is_mended(tmp_path, family, scenario, codes, file, changes):
    path = tmp_path / "repro.py"
    path.write_text(repro.script(cell(family, scenario, *codes)))
    there = repro.confirm(path)
    assert there.code == 1, there.output
    gone = repro.confirm(path, library=mended(tmp_path / "fixed", *changes, file=file))
    assert gone.code == 0, gone.output
    assert "OK: the fault is not there" in gone.output


def test_drafts_of_a_scheduler_of_its_own_are_run_one_by_one():
    """A recorded scheduler that drafts is not mlx-lm's loop for that."""
    trace = read(FOLDER / "gemma4-speculative-verify.yaml")
    assert trace.header.scheduler.speculative
    assert "speculate(" not in repro.of_trace(trace, source="sample", codes=("MD105",))


def test_what_the_server_stores_after_drafts_is_one_token_short():
    code, said = performed(repro.script(cell("mixtral", "drafts-stored", "MD205", "MD402")))
    assert code == 1
    assert "the first is 6 of b" in said


def test_the_pinned_keys_of_a_batch_are_expected_as_documented():
    code, said = performed(repro.script(cell("mixtral", "key-cap-batch", "MD305")))
    assert code == 1
    assert "position 9 of sequence a sees 0..3, 6..9" in said


def test_where_a_cap_leaves_a_token_itself_its_own_key_is_looked_for(tmp_path):
    path = tmp_path / "repro.py"
    path.write_text(repro.script(cell("mixtral", "key-cap-below-pins", "MD305")))
    there = repro.confirm(path)
    assert there.code == 1, there.output
    assert "gives back the key and value of position 4" in there.output
    pinned = (
        "            self._idx = self.keep\n",
        "            self._idx = min(self.keep, self.max_size - 1)\n",
    )
    gone = repro.confirm(path, library=mended(tmp_path / "fixed", pinned, file="models/cache.py"))
    assert gone.code == 0, gone.output


def test_what_a_trim_answers_is_looked_at_where_that_is_the_fault():
    """In `nemotron-nas` too, which no import statement can name."""
    code, said = performed(repro.script(cell("nemotron-nas-linear", "trim-then-chunk", "MD204")))
    assert code == 1, said
    assert "seen:     it says 0" in said


@pytest.mark.parametrize(("family", "scenario"), [("plamo2", "fresh-over-window"), ("gptj", "key-cap")])
def test_attention_may_be_given_its_input_by_any_name(family, scenario):
    said = performed(repro.script(cell(family, scenario, "MD302")))
    assert said[0] == (1 if family == "plamo2" else 0), said[1]
    assert said[1].splitlines()[-1].startswith(("FAULT", "OK"))


def test_a_fault_of_several_families_is_shown_with_the_one_of_its_smallest_schedule():
    wrong = cell("phi3", "decode-across-window", "MD302")
    fault = Fault(
        id="x",
        code="MD302",
        codes=wrong.codes,
        library="mlx-lm",
        families=["Klear", "phi3"],
        cause="",
        smallest=wrong.trace,
    )
    source = repro.script(fault)
    assert "Klear" not in source
    assert source.splitlines()[1].startswith('"""mlx_lm.models.phi3: ')


def test_an_exception_of_the_script_itself_is_no_fault():
    source = repro.script(cell("gemma2", "left-padding", "MD901"))
    code, said = performed(source.replace("def schedule(run):\n", "def schedule(run):\n    run.nothing()\n"))
    assert code == 2, said
    assert said.splitlines()[-1].startswith("could not run: line ")
    code, said = performed(source)
    assert (code, said.splitlines()[-1]) == (1, "FAULT")


def test_speculative_decoding_may_be_mended_by_keeping_away_from_rings(tmp_path):
    path = tmp_path / "repro.py"
    path.write_text(repro.script(cell("gemma3_text", "speculative-across-wrap", "MD402")))
    there = repro.confirm(path)
    assert there.code == 1
    assert "speculative_generate_step gives what generate_step gives" in there.output
    rewind = "    def _rewind_cache(num_draft, num_accept):\n"
    refusal = (
        "    if any(getattr(c, 'max_size', None) for c in model_cache):\n"
        "        raise ValueError('a ring cannot be rolled back')\n\n"
    )
    fixed = mended(tmp_path / "fixed", (rewind, refusal + rewind), file="generate.py")
    gone = repro.confirm(path, library=fixed)
    assert gone.code == 0, gone.output
    assert "a ring cannot be rolled back" in gone.output


@pytest.mark.parametrize(
    ("family", "scenario", "codes", "said"),
    [
        ("gemma3n", "no-cache", ("MD402",), "the logits of one forward of the same tokens"),
        ("gemma3_text", "speculative-across-wrap", ("MD304", "MD402"), "the logits of one forward"),
        ("phi3", "decode-across-window", ("MD302",), "position 8 of sequence a sees 0..8"),
        ("llama4", "trim-after-wrap-chunk", ("MD302", "MD402"), "the logits of one forward"),
        ("gemma2", "ragged-batch", ("MD901",), "cannot be broadcast"),
        ("recurrent_gemma", "left-padding", ("MD402",), "of b, by"),
    ],
)
def test_a_script_shows_the_true_faults_of_the_library(family, scenario, codes, said):
    code, printed = performed(repro.script(cell(family, scenario, *codes)))
    assert code == 1, printed
    assert said in printed


@pytest.mark.parametrize("family", ["gemma3_text", "llama"])
@pytest.mark.parametrize(
    "scenario",
    [
        "fresh-over-window",
        "speculative-before-wrap",
        "trim-then-chunk",
        "save-and-load",
        "trie-longer",
        "ragged-batch",
        "right-padding",
    ],
)
def test_right_schedules_exit_with_zero(family, scenario):
    """Both ways of looking: through every op, the script is no wronger than the library."""
    trace = schedules.build(scenario, zoo.tiny(family))
    for codes in (["MD402"], ["MD302"]):
        fault = Fault(id="x", code=codes[0], codes=codes, library="mlx-lm", families=[family], cause="")
        code, printed = performed(repro.script(fault, control=trace))
        assert code == 0, printed
        assert "OK: the schedule is right" in printed


def test_what_the_library_refuses_is_no_fault():
    trace = schedules.build("trim-after-wrap-decode", zoo.tiny("gemma3_text"))
    fault = Fault(id="x", code="MD402", codes=["MD402"], library="mlx-lm", families=["gemma3_text"], cause="")
    code, printed = performed(repro.script(fault, control=trace))
    assert (code, "can_trim_prompt_cache says no" in printed) == (0, True), printed


SMALL = {"gpt-oss-one-pass": "MD901", "gemma3-one-pass": "MD402", "gemma4-padding-left-behind": "MD404"}


@pytest.mark.parametrize(("name", "code"), SMALL.items())
def test_a_recorded_schedule_hands_in_what_its_server_did(name, code):
    assert name in SAMPLES
    recorded = read(FOLDER / f"{name}.yaml")
    headline = frozenset({signature(inspect_trace(recorded).findings[0])})
    small = shrink(recorded, inspecting(), 5000, target=headline)
    source = repro.of_trace(small.trace, source=name, codes=(code,), cause="a mask that is too short")
    ended, printed = performed(source)
    assert ended == 1, printed
    assert ("done by this script itself" in source) == (code != "MD404")
    control = repro.of_trace(small.control, source=name, codes=(code,), passes=True)
    assert performed(control)[0] == 0


def test_a_script_without_caches_feeds_the_whole_sequence_again():
    steps = "".join(f"- {{step: {n}, rows: [{{seq: a, offset: 0, tokens: {9 + n}}}]}}\n" for n in (1, 2, 3))
    recorded = parse(
        "schema: mlxdiag.trace/1\nscheduler: {cacheless: true}\nmodel: {architecture: gemma3_text, layers: "
        f"{{sliding: {{attention: sliding, window: 8}}}}}}\nsteps:\n{steps}"
    )
    source = repro.of_trace(recorded, source="growing", codes=("MD402",), passes=True)
    ended, printed = performed(source)
    assert ended == 0, printed


def test_a_script_needs_mlx_lm_alone():
    source = repro.script(cell("gemma3_text", "speculative-across-wrap", "MD402"))
    imported = {
        line.split()[1].split(".")[0]
        for line in source.splitlines()
        if line.strip().startswith(("import ", "from "))
    }
    assert imported <= {"copy", "hashlib", "inspect", "os", "sys", "mlx", "mlx_lm", "tempfile"}
    assert "mlxdiag" not in source


def test_a_script_that_cannot_run_says_so(tmp_path):
    path = tmp_path / "repro.py"
    source = repro.script(cell("gemma2", "fresh-over-window", "MD302"))
    path.write_text(source.replace("from mlx_lm.models import gemma2", "from mlx_lm.models import gemma2000"))
    ran = repro.confirm(path)
    assert ran.code == 2
    assert "could not run" in ran.output


def test_a_script_runs_apart_from_this_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SWORDFISH", "1")
    (tmp_path / "beside.py").write_text("")
    path = tmp_path / "repro.py"
    path.write_text(
        "import importlib.util, os, sys\n"
        "sys.exit(3 if importlib.util.find_spec('beside') or 'SWORDFISH' in os.environ else 0)\n"
    )
    assert repro.confirm(path).code == 0
    path.write_text("import time\ntime.sleep(60)\n")
    assert repro.confirm(path, timeout=0.5) == (124, "it did not end within 0 s")


def test_faults_are_written_under_their_names(tmp_path):
    wrong = cell("gemma2", "fresh-over-window", "MD108", "MD302")
    fault = Fault(
        id="gemma2-window",
        code="MD302",
        codes=wrong.codes,
        library="mlx-lm",
        families=["gemma2"],
        cause='one causal mask for """every""" layer',
        where="mlx_lm/models/gemma2.py:176",
        smallest=wrong.trace,
    )
    path = repro.write(fault, tmp_path)
    assert path == tmp_path / "gemma2-window.py"
    compile(path.read_text(), str(path), "exec")
    assert os.access(path, os.X_OK)
    assert "Where: mlx_lm/models/gemma2.py:176" in path.read_text()
    assert (
        repro.write(Fault(id="y", code="MD402", library="mlx-lm", families=["llama"], cause=""), tmp_path)
        is None
    )
    with pytest.raises(UnjudgedError, match="no schedule"):
        repro.script(Fault(id="y", code="MD402", library="mlx-lm", families=["llama"], cause=""))


def test_the_schedule_of_a_script_is_that_of_the_trace():
    wrong = cell("gemma3_text", "speculative-across-wrap", "MD402")
    source = repro.script(wrong)
    feeds = [line for line in source.splitlines() if "run.feed(" in line]
    fed = [entry.rows[0].tokens for entry in parse(wrong.trace).entries if entry.rows[0].tokens]
    assert [line.count(",") for line in feeds] == fed, "one comma a token, and one after the cache"
