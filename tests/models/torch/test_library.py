from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library


def current() -> ModuleType:
    """The package as it is now: importing a model for the first time puts another object in its place."""
    return importlib.import_module("transformers")


def test_a_family_has_the_classes_that_the_library_maps_it_to() -> None:
    found = library.family("gemma3_text")
    assert not isinstance(found, Skipped)
    assert (found.config.__name__, found.model.__name__) == ("Gemma3TextConfig", "Gemma3ForCausalLM")
    assert found.has_head


def test_families_outside_of_that_map_are_found_by_the_names_that_people_use() -> None:
    step = library.family("step3p5")
    assert not isinstance(step, Skipped)
    assert (step.config.__name__, step.wrapper.__name__) == ("Step3p7TextConfig", "Step3p7Config")
    diffusion = library.family("diffusion_gemma")
    assert not isinstance(diffusion, Skipped)
    assert diffusion.model.__name__ == "DiffusionGemmaEncoderTextModel"
    assert not diffusion.has_head


@pytest.mark.parametrize(
    ("name", "why"),
    [("frobnicator", "has no such model"), ("", "has no such model"), ("clip", "not as a language model")],
)
def test_what_is_no_family_is_a_value_with_a_reason(name: str, why: str) -> None:
    found = library.family(name)
    assert isinstance(found, Skipped)
    assert why in found.reason


def test_a_type_that_is_not_mapped_is_found_by_the_class_that_a_config_names() -> None:
    config = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
    found = library.family_of(config)
    assert not isinstance(found, Skipped)
    assert found.model.__name__ == "LlavaForConditionalGeneration"
    for names in (["os"], ["CLIPModel"], ["NoSuchClass"], None):
        assert isinstance(library.family_of({**config, "architectures": names}), Skipped)


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_package_is_a_value_that_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for found in (library.load(), library.family("llama")):
        assert isinstance(found, Skipped)
        assert found.reason.startswith(f"{missing} cannot be imported")
        assert "mlxdiag[torch]" in found.hint


@pytest.mark.parametrize("version", ["4.57.1", "5.23.0", "6.0.0", "nonsense", ""])
def test_a_version_that_is_too_old_or_of_another_major_number_is_named(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current(), "__version__", version)
    found = library.load()
    assert isinstance(found, Skipped)
    assert found.reason == f"transformers {version or 'without a version'} is not supported"
    assert found.hint == "pip install 'transformers>=5.24,<6'"


@pytest.mark.parametrize("version", ["5.24.0", "5.30.1", "5.25.0.dev0"])
def test_later_versions_of_the_same_major_number_are_taken(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current(), "__version__", version)
    assert library.load() is current()


def test_defaults_are_those_of_the_config_class() -> None:
    found = library.family("mistral")
    assert not isinstance(found, Skipped)
    assert library.defaults(found)["sliding_window"] == 4096


def test_the_library_says_what_it_said_before_once_it_was_quiet() -> None:
    library.load()
    logging = importlib.import_module("transformers.utils.logging")
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    try:
        with library.quiet():
            assert logging.get_verbosity() == logging.ERROR
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(before)


def test_nothing_is_imported_of_torch_or_transformers_before_it_is_asked_for() -> None:
    program = (
        "import sys, mlxdiag.models.torch.checkpoint, mlxdiag.models.torch.devices, mlxdiag.models.torch.zoo;"
        "print([name for name in ('torch', 'transformers', 'mlx', 'mlx_lm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_hub_is_offline_once_the_library_is_loaded() -> None:
    program = (
        "import os; [os.environ.pop(n, None) for n in ('HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE')];"
        "from mlxdiag.models.torch import library; library.load();"
        "from huggingface_hub import constants; print(constants.HF_HUB_OFFLINE)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
