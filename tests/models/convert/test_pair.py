"""Real pairs: built in transformers, written, and read by mlx-lm's own strict loader."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mlxdiag.errors import UnreadableError
from mlxdiag.models import convert
from mlxdiag.models.convert.rows import row
from mlxdiag.models.convert.write import republished, saved
from mlxdiag.models.mlx import checkpoint

IDS = np.random.default_rng(7).permutation(512)[None, :43]


@pytest.mark.parametrize(
    "family", ["gemma3_text", "llama", "gpt_oss+truncated", "gemma4_text+shared", "step3p5", "qwen3_next"]
)
def test_both_sides_give_the_same_logits(family: str) -> None:
    pair = convert.tiny(family)
    assert isinstance(pair, convert.Pair)
    ours, theirs = (one.backend.read(one.forward(IDS, one.new_cache()))[0] for one in (pair.torch, pair.mlx))
    # The noise of right pairs is below 3e-5 of the spread over all families.
    assert float(np.abs(ours - theirs).max()) < 1e-4 * float(ours.std())


def test_the_two_configs_describe_the_same_layers() -> None:
    pair = convert.tiny("exaone4")
    assert isinstance(pair, convert.Pair)
    kinds = [[(s.index, s.attention, s.window) for s in side.geometry.layers] for _, side in pair.sides]
    assert kinds[0] == kinds[1]
    assert [window for _, _, window in kinds[0]] == [8, None, 8, None]


def test_weights_are_alive_after_their_folder_is_gone() -> None:
    pair = convert.tiny("llama")
    assert isinstance(pair, convert.Pair)
    weight = pair.mlx.model.model.layers[0].self_attn.q_proj.weight
    mine = dict(pair.torch.model.named_parameters())["model.layers.0.self_attn.q_proj.weight"]
    assert np.array_equal(np.array(weight.astype(mx.float32)), mine.detach().numpy())


@pytest.mark.parametrize(
    ("family", "kind", "library", "said"),
    [
        ("beam", "lacks", "mlx-lm", "has no family beam"),
        ("no-such", "lacks", "transformers", "has no such model: no-such"),
        ("minimax", "apart", "", "is MiniMax-M2"),
    ],
)
def test_what_is_no_pair_says_whose_doing_it_is(family: str, kind: str, library: str, said: str) -> None:
    found = convert.tiny(family)
    assert isinstance(found, convert.Apart)
    assert (found.kind, found.library) == (kind, library)
    assert said in found.reason
    assert "/tmp" not in found.reason


def test_a_checkpoint_that_is_refused_says_by_whom_and_why() -> None:
    pair = convert.tiny("olmo_hybrid")
    assert isinstance(pair, convert.Pair)
    # transformers saves the names of the program that trained it, which mlx-lm does not know.
    found = convert.of_instance(pair.torch, "olmo_hybrid", form="saved")
    assert isinstance(found, convert.Apart)
    assert (found.kind, found.library) == ("refuses", "mlx-lm")
    assert "attention_layer_norm" in found.reason
    assert "/tmp" not in found.reason


HARD = [
    "bailing_hybrid",
    "kimi_linear",
    "minimax_m3_vl_text",
    "mistral4",
    "olmo_hybrid",
    "olmo_hybrid+nope",
    "youtu",
]
"""Families whose saved names, layouts or types are far from the published ones."""


@pytest.mark.parametrize("family", [*HARD, "longcat_flash", "dbrx+base"])
def test_what_was_refused_for_want_of_a_conversion_is_compared(family: str) -> None:
    pair = convert.tiny(family)
    assert isinstance(pair, convert.Pair), pair
    ours, theirs = (one.backend.read(one.forward(IDS, one.new_cache()))[0] for one in (pair.torch, pair.mlx))
    # kimi_linear lies highest: an epsilon of one norm is another one in mlx-lm.
    assert float(np.abs(ours - theirs).max()) < 1e-4 * float(ours.std())


@pytest.mark.parametrize("family", sorted({*HARD, "dbrx"} - {"minimax_m3_vl_text"}))
def test_transformers_itself_reads_what_is_called_published(family: str, tmp_path: Path) -> None:
    entry = row(family)
    pair = convert.tiny(family)
    assert isinstance(pair, convert.Pair), pair
    folder = republished(saved(pair.torch.model, tmp_path / "saved"), tmp_path / "published", entry)
    config = json.loads((folder / "config.json").read_text())
    # One family bears another type in transformers.
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": pair.torch.geometry.architecture})
    )
    kind = type(pair.torch.model)
    again, told = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(told.values()), told
    again.eval()
    with torch.no_grad():
        # Without the padding token: youtu empties its embedding whenever it is loaded (modeling_youtu.py).
        ids = torch.tensor(IDS[:, IDS[0] != 0])
        ours, theirs = (one(ids).logits for one in (pair.torch.model, again))
    # Experts run by another kernel than in the instance, which rounds otherwise.
    assert float((ours - theirs).abs().max()) < 1e-5 * float(ours.std())


def test_transformers_takes_no_published_experts_that_compute_nothing(tmp_path: Path) -> None:
    # modeling_longcat_flash.py makes gate_up_proj for `total_experts`, and down_proj for the real ones alone.
    # Published checkpoints hold no weights for the others. A library that is mended takes them.
    pair = convert.tiny("longcat_flash")
    assert isinstance(pair, convert.Pair)
    folder = republished(
        saved(pair.torch.model, tmp_path / "saved"), tmp_path / "published", row("longcat_flash")
    )
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(pair.torch.model).from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("change", ["missing", "surplus"])
def test_a_weight_too_few_or_too_many_is_named_and_never_left_out(change: str, tmp_path: Path) -> None:
    from mlxdiag.models.torch import zoo

    source = saved(zoo.tiny("llama").model, tmp_path / "saved")
    folder = republished(source, tmp_path / "published", row("llama"))
    weights = load_file(folder / "model.safetensors")
    if change == "missing":
        weights.pop("model.layers.1.mlp.up_proj.weight")
    else:
        weights["model.layers.1.mlp.extra.weight"] = np.zeros(3, np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    named = "mlp.up_proj.weight" if change == "missing" else "mlp.extra.weight"
    with pytest.raises(UnreadableError, match=named):
        checkpoint.load(folder)


def test_the_saved_form_is_what_transformers_writes(tmp_path: Path) -> None:
    from mlxdiag.models.torch import zoo

    source = saved(zoo.tiny("gemma3_text").model, tmp_path / "saved")
    config = json.loads((source / "config.json").read_text())
    assert "rope_parameters" in config
    assert "sliding_window_pattern" not in config
    folder = republished(source, tmp_path / "published", row("gemma3_text"))
    assert json.loads((folder / "config.json").read_text())["sliding_window_pattern"] == 2


def test_a_scaled_embedding_gets_a_width_with_a_whole_root() -> None:
    from mlxdiag.models.torch import zoo

    tiny = zoo.tiny("gemma2")
    assert not hasattr(tiny, "reason")
    wider = convert.exact(tiny)
    assert wider.model.config.hidden_size == 256
    assert [s.window for s in wider.geometry.layers] == [s.window for s in tiny.geometry.layers]
    plain = zoo.tiny("llama")
    assert convert.exact(plain) is plain
    assert torch.get_default_dtype() == torch.float32
