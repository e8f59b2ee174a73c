from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.checkpoint import load
from mlxdiag.models.torch.instance import TorchInstance
from tests.models.torch.visibility import ids

Change = Callable[[dict[str, Any]], object]


def saved(directory: Path, family: str = "gemma3_text", change: Change | None = None) -> TorchInstance:
    instance = zoo.tiny(family)
    assert isinstance(instance, TorchInstance)
    instance.model.save_pretrained(directory)
    if change is not None:
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return instance


@pytest.mark.parametrize(
    "family", ["gemma3_text", "gpt_oss", "gemma4_text+k=v", "mistral", "recurrent_gemma"]
)
def test_a_saved_instance_comes_back_with_the_same_logits(family: str, tmp_path: Path) -> None:
    before = saved(tmp_path / "checkpoint", family)
    after = load(tmp_path / "checkpoint")
    assert torch.equal(before.forward(ids(), None), after.forward(ids(), None))
    assert (after.name, after.vocab, after.module) == ("checkpoint", 512, before.module)
    assert after.geometry.layers == before.geometry.layers
    assert after.geometry.notes == ()


def test_a_checkpoint_with_its_whole_wrapper_comes_back(tmp_path: Path) -> None:
    before = saved(tmp_path / "step", "step3p5")
    after = load(tmp_path / "step")
    assert torch.equal(before.forward(ids(), None), after.forward(ids(), None))


def test_loading_prints_nothing_and_leaves_the_library_s_own_output_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    saved(tmp_path)
    logging.enable_progress_bar()
    capfd.readouterr()
    load(tmp_path)
    assert "".join(capfd.readouterr()) == ""
    assert logging.is_progress_bar_enabled()


def test_an_implementation_of_attention_can_be_asked_for(tmp_path: Path) -> None:
    saved(tmp_path)
    assert load(tmp_path, attention="eager").attention == "eager"


def configured(directory: Path, **fields: Any) -> None:
    """Change fields of a checkpoint's config."""
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_halves_are_computed_in_float32_and_noted(tmp_path: Path) -> None:
    saved(tmp_path, change=lambda weights: weights.update({n: v.bfloat16() for n, v in weights.items()}))
    instance = load(tmp_path)
    assert instance.forward(ids(), None).dtype == torch.float32
    assert instance.geometry.notes == ("weights stored in bfloat16 are computed in float32",)


def test_eight_bit_floats_are_noted_too(tmp_path: Path) -> None:
    eight = torch.float8_e4m3fn
    saved(tmp_path, change=lambda weights: weights.update({n: v.to(eight) for n, v in weights.items()}))
    assert load(tmp_path).geometry.notes == ("weights stored in float8_e4m3fn are computed in float32",)


NORM = "model.layers.1.self_attn.q_norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop(NORM), rf"lacks weights \(1\): {NORM}"),
        (lambda weights: weights.update(extra=torch.ones(2)), r"has surplus weights \(1\): extra"),
        (
            lambda weights: weights.update({NORM: torch.ones(7)}),
            rf"has misshapen weights \(1\): {NORM} \[7\] where the config means \[\d+\]",
        ),
        (
            lambda weights: [weights.pop(name) for name in list(weights) if "mlp" in name],
            r"lacks weights \(12\): model\.layers\.0\.mlp\.down_proj\.weight, .*, \.\.\.",
        ),
    ],
)
def test_weights_that_are_missing_surplus_or_misshapen_are_named(
    change: Change, message: str, tmp_path: Path
) -> None:
    saved(tmp_path, change=change)
    with pytest.raises(UnreadableError, match=message):
        load(tmp_path)


def test_a_shape_that_no_memory_could_hold_is_named_and_not_allocated(tmp_path: Path) -> None:
    saved(tmp_path)
    configured(tmp_path, vocab_size=10**12)
    with pytest.raises(
        UnreadableError, match=r"embed_tokens.weight \[512, 64\] where the .* \[1000000000000, 64\]"
    ):
        load(tmp_path)


def test_a_field_that_the_config_class_refuses_is_told_with_its_file(tmp_path: Path) -> None:
    saved(tmp_path)
    configured(tmp_path, hidden_size="64")
    with pytest.raises(UnreadableError, match=r"config\.json: transformers refuses it: .*'hidden_size'"):
        load(tmp_path)


def test_a_package_that_the_config_needs_and_that_is_not_there_judges_nothing(tmp_path: Path) -> None:
    saved(tmp_path)
    configured(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(UnjudgedError, match=r"lacks a package for it: .*optimum"):
        load(tmp_path)


def test_a_model_that_looks_ahead_judges_nothing(tmp_path: Path) -> None:
    saved(tmp_path)
    configured(tmp_path, use_bidirectional_attention=True)
    with pytest.raises(
        UnjudgedError, match=r"config\.json: use_bidirectional_attention is True: queries attend"
    ):
        load(tmp_path)


def test_a_config_that_the_library_s_caches_cannot_read_judges_nothing(tmp_path: Path) -> None:
    saved(tmp_path / "windowless")
    configured(tmp_path / "windowless", sliding_window=None)
    with pytest.raises(
        UnjudgedError, match="windowless: the library makes no cache for its config: TypeError"
    ):
        load(tmp_path / "windowless").new_cache()


def test_a_directory_that_holds_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is not a model directory"):
        load(tmp_path / "nowhere")
    with pytest.raises(UnreadableError, match=r"has no config\.json"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnreadableError, match=r"has no model\*\.safetensors"):
        load(tmp_path)


def test_a_family_that_the_library_lacks_judges_nothing(tmp_path: Path) -> None:
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "model_type": "frobnicator", "architectures": ["FrobnicatorForCausalLM"]})
    )
    with pytest.raises(UnjudgedError, match="has no such model: frobnicator"):
        load(tmp_path)


def test_code_beside_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    code = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')\n")
    (tmp_path / "config.json").write_text(json.dumps({**config, "auto_map": code}))
    assert load(tmp_path).module.__name__ == "transformers.models.gemma3.modeling_gemma3"


def test_a_device_that_is_not_there_judges_nothing(tmp_path: Path) -> None:
    saved(tmp_path)
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(UnjudgedError, match=f"{absent} does not compute"):
        load(tmp_path, device=absent)
