from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import library


def test_a_family_is_found_under_its_own_name_and_under_a_remapped_one() -> None:
    assert library.family("gemma4_text").__name__ == "mlx_lm.models.gemma4_text"
    assert library.family("mistral").__name__ == "mlx_lm.models.llama"


def test_of_two_models_of_one_type_the_class_that_the_config_names_tells() -> None:
    # mlx_lm.utils.MODEL_ARCHITECTURE_REMAPPING: Ling 3 bears the type of Ling 2.5.
    named = {"model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"]}
    for config in (named, {**named, "architectures": "BailingMoeV3ForCausalLM"}):
        assert library.family_of(config).__name__ == "mlx_lm.models.bailing_moe_v3"
    for config in (
        {"model_type": "bailing_hybrid"},
        {**named, "architectures": ["BailingMoeV2_5ForCausalLM"]},
    ):
        assert library.family_of(config).__name__ == "mlx_lm.models.bailing_hybrid"
    assert (
        library.family_of({"model_type": "mistral", "architectures": None}).__name__ == "mlx_lm.models.llama"
    )


@pytest.mark.parametrize("name", ["baichuan", "diffusion_gemma"])
def test_families_that_people_ask_for_are_missing_with_a_reason_and_a_hint(name: str) -> None:
    found = library.family(name)
    assert isinstance(found, Skipped)
    assert f"mlx-lm has no {name}".replace("no b", "no plain b") in found.reason
    assert found.hint


@pytest.mark.parametrize("name", ["frobnicator", "cache", "../utils", "", "a.b"])
def test_what_is_no_family_is_a_value_and_no_import_error(name: str) -> None:
    assert isinstance(library.family(name), Skipped)


def test_a_family_that_exits_at_import_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    # mlx_lm.models.olmo calls sys.exit when the package ai2-olmo is missing.
    monkeypatch.setitem(sys.modules, "hf_olmo", None)
    monkeypatch.delitem(sys.modules, "mlx_lm.models.olmo", raising=False)
    found = library.family("olmo")
    assert isinstance(found, Skipped)
    assert found.reason == "family olmo needs the package hf_olmo"
    assert "ai2-olmo" in found.hint


def test_a_missing_mlx_is_a_value_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    found = library.load()
    assert isinstance(found, Skipped)
    assert found.reason.startswith("mlx cannot be imported")
    assert found.hint.startswith("pip install")


def test_a_missing_mlx_lm_is_told_from_a_missing_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx_lm", None)
    found = library.family("llama")
    assert isinstance(found, Skipped)
    assert found.reason.startswith("mlx-lm cannot be imported")


@pytest.mark.parametrize(("given", "after"), [(None, "1"), ("0", "0")])
def test_compilation_is_off_on_a_cpu_unless_the_user_decided(given: str | None, after: str) -> None:
    import mlx.core as mx

    if mx.default_device() == mx.gpu:
        pytest.skip("a GPU computes here, compilation stays on")
    environment = {name: value for name, value in os.environ.items() if name != library.COMPILE_SWITCH}
    if given is not None:
        environment[library.COMPILE_SWITCH] = given
    program = (
        "import os; from mlxdiag.models.mlx import library; library.load();"
        f"print(os.environ['{library.COMPILE_SWITCH}'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == after


def test_text_models_that_the_library_only_has_inside_a_wrapper_are_wrapped() -> None:
    assert library.wrapped({"model_type": "gemma3n_text", "a": 1}) == {
        "model_type": "gemma3n",
        "text_config": {"model_type": "gemma3n_text", "a": 1},
    }
    assert library.wrapped({"model_type": "llama"}) == {"model_type": "llama"}
