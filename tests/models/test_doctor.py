from __future__ import annotations

import sys
from importlib import metadata

import pytest

from mlxdiag.models import doctor


def test_the_examination_names_versions_backends_and_families() -> None:
    found = doctor.examine()
    assert found.libraries["mlx-lm"] == metadata.version("mlx-lm")
    assert [backend.name for backend in found.backends] == ["mlx", "torch"]
    mlx = found.backends[0]
    assert mlx.works
    assert [device.name for device in mlx.devices] == ["metal", "cuda", "cpu"]
    assert {"gemma4", "gpt_oss", "llama"} <= set(found.families)
    assert {"gemma3_text", "gpt_oss", "qwen3"} <= set(found.transformers_families)
    assert {missing.name for missing in found.missing} == {
        "baichuan",
        "diffusion_gemma",
        "diffusion_gemma_text",
    }


def test_a_missing_backend_comes_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: None)
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    mlx, torch = doctor.examine().backends
    assert not mlx.works
    assert mlx.reason.startswith("mlx cannot be imported")
    assert mlx.hint.startswith("pip install")
    assert (torch.works, torch.reason) == (False, "torch and transformers not installed")
    assert torch.hint == 'pip install "mlxdiag[torch]"'
    assert doctor.examine().transformers_families == []


def test_a_transformers_that_nothing_runs_on_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(transformers, "__version__", "4.57.1")
    torch = doctor.examine().backends[1]
    assert (torch.works, torch.reason) == (False, "transformers 4.57.1 is not supported")


def test_a_broken_torch_is_reported_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: "1.0")
    monkeypatch.setitem(sys.modules, "torch", None)
    torch = doctor.examine().backends[1]
    assert torch.reason.startswith("torch cannot be imported")
