"""The script that measures a GPU, rehearsed on the CPU; the real run where there is a GPU."""

import subprocess

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")

import torch

from tests.device import measure

SMALL = ("--families", "gemma3_text", "--stories", "gpt-oss-one-pass,mlx-lm-server", "--seconds", "60")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(measure, "SAMPLED", ("gemma3_text",))
    monkeypatch.setattr(measure, "SCENARIOS", ("decode-across-window", "left-padding"))


def test_equal_devices_agree_in_everything_and_the_page_says_what_was_compared(tmp_path, capsys):
    page = tmp_path / "page.md"
    assert measure.main(["--device", "cpu", *SMALL, "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert page.read_text().strip() == said.strip()
    assert "| gpt-oss-one-pass | MD101 MD107 MD901 | MD101 MD107 MD901 | yes |" in said
    assert "joins caches which hold keys" in said
    assert "| gemma3_text | 2 | 2 | 2 pass |" in said
    assert "5 comparisons, 0 disagree." in said


def test_a_device_whose_logits_are_off_is_named(monkeypatch, capsys):
    right, calls = measure.logits, []

    def second(instance, size):
        calls.append(size)
        return right(instance, size) + (0.01 if len(calls) == 3 else 0.0)

    monkeypatch.setattr(measure, "logits", second)
    clock, tally = measure.Clock(60), measure.Tally()
    list(measure.noise("cpu", ("gemma3_text",), clock, tally))
    assert tally.compared == 2
    assert len(tally.wrong) == 1
    assert "gemma3_text sdpa: logits by" in tally.wrong[0]


def test_what_finds_no_time_is_named():
    clock, tally = measure.Clock(0.0), measure.Tally()
    said = list(measure.stories("torch", "cpu", ("gpt-oss-one-pass",), clock, tally))
    assert said[-1].startswith("| gpt-oss-one-pass | left out: no time |")
    assert tally.compared == 0


def test_a_device_that_is_not_there_is_said_in_one_line(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert measure.main(["--device", "cuda"]) == 4
    assert capsys.readouterr().err.startswith("not measured: cuda does not compute: ")


def test_chunks_and_one_pass_are_the_same_logits_on_one_device():
    instance = measure.zoo.tiny("gemma3_text", device="cpu")
    apart = np.abs(measure.logits(instance, 5) - measure.logits(instance, measure.LENGTH))
    assert 0 < apart.max() < 2e-4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: torch sees none here")
def test_the_whole_script_on_the_gpu(tmp_path):
    script = measure.ROOT / "tests/device/run_cuda.sh"
    ran = subprocess.run([script, "-o", tmp_path / "page.md", "--seconds", "300"], check=False)
    assert ran.returncode == 0
