import os
import subprocess
import sys
from pathlib import Path

import pytest

import mlxdiag
from mlxdiag.cli import inspect as inspect_verb
from mlxdiag.cli.main import VERBS
from tests.cli.program import HEALTHY, SCRIPT, SHORT_MASK, call, start


def test_the_version_is_the_packages(capsys):
    assert call(capsys, "--version").out == f"mlxdiag {mlxdiag.__version__}\n"


def test_help_lists_every_verb_and_the_exit_codes(capsys):
    ran = call(capsys, "--help")
    assert ran.code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in ran.out
    assert "0 clean, 1 findings, 2 usage" in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(capsys, verb):
    ran = call(capsys, verb, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: mlxdiag {verb} ")


@pytest.mark.parametrize("args", [["insect"], ["--nonsense"], ["inspect"], ["inspect", "--format"], []])
def test_wrong_usage_is_two_and_leaves_standard_output_empty(capsys, args):
    ran = call(capsys, *args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_a_misspelt_verb_is_guessed(capsys):
    assert "Did you mean 'inspect'?" in call(capsys, "insect").err


def test_a_fault_of_the_program_is_one_line_and_no_verdict(trace, capsys, monkeypatch):
    def fail(*args, **settings):
        raise RuntimeError("planted\nfault")

    monkeypatch.setattr(inspect_verb, "settle", fail)
    ran = call(capsys, "inspect", trace(HEALTHY))
    assert ran.code == 70
    assert "Traceback" not in ran.err
    assert "internal error: RuntimeError: planted\\nfault" in ran.err
    monkeypatch.setenv("MLXDIAG_DEBUG", "1")
    with pytest.raises(RuntimeError):
        inspect_verb_run()


def inspect_verb_run():
    from mlxdiag.cli.main import run

    run(["inspect", "t.yaml"])


def test_an_interrupt_is_no_traceback(trace, capsys, monkeypatch):
    def interrupt(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect_verb, "settle", interrupt)
    ran = call(capsys, "inspect", trace(HEALTHY))
    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_the_installed_program_keeps_its_streams_and_codes_apart(trace):
    ran = start("inspect", trace(HEALTHY, SHORT_MASK))
    assert ran.returncode == 1
    assert "MD101" in ran.stdout
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout


def test_the_module_is_the_program(trace):
    command = [sys.executable, "-m", "mlxdiag", "inspect", trace(HEALTHY), "-"]
    ran = subprocess.run(command, input="steps: 7\n", capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 3
    assert "clean: no rule fired" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_standard_input_is_a_trace(trace, tmp_path):
    text = (tmp_path / trace(HEALTHY, SHORT_MASK)).read_text()
    ran = start("inspect", "-", input=text)
    assert ran.returncode == 1
    assert ran.stdout.startswith("<stdin>: 1 error")


def test_the_verdict_does_not_depend_on_who_reads_it(trace):
    """As `mlxdiag inspect t.yaml | true`: the reader is gone before the first line."""
    for args, code in ((["inspect", trace(HEALTHY, SHORT_MASK)], 1), (["--help"], 0)):
        read, write = os.pipe()
        os.close(read)
        ran = subprocess.run([SCRIPT, *args], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        os.close(write)
        assert (ran.returncode, ran.stderr) == (code, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_is_one_line(trace):
    with open("/dev/full", "w") as full:
        ran = start("inspect", trace(HEALTHY), capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr == "mlxdiag: error: cannot write standard output: No space left on device\n"


def test_a_log_that_is_not_utf8_loses_no_result(trace):
    name = trace(HEALTHY, SHORT_MASK.replace('"a"', '"字"'))
    ran = start("inspect", name, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 1
    assert "\\u5b57" in ran.stdout


def test_inspect_needs_neither_mlx_nor_torch_nor_rich(trace):
    blocked = ("mlx", "mlx_lm", "torch", "transformers", "rich", "numpy")
    code = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        "from mlxdiag.cli.main import run\n"
        "run(sys.argv[1:])\n"
    )
    for args, expected in (
        (["inspect", trace(HEALTHY, SHORT_MASK)], 1),
        (["--help"], 0),
        (["rule"], 0),
        (["schema"], 0),
    ):
        ran = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
        assert ran.returncode == expected, ran.stderr
