from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import catalogue
from mlxdiag.models.configs.directory import read_config
from mlxdiag.models.mlx.checkpoint import load
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.tiny import build

Change = Callable[[dict[str, Any]], object]


def _save(directory: Path, name: str, change: Change | None = None) -> MlxInstance:
    instance = build(catalogue.config(name), window=8)
    assert isinstance(instance, MlxInstance)
    weights = dict(tree_flatten(instance.model.parameters()))
    if change is not None:
        change(weights)
    directory.mkdir()
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    (directory / "config.json").write_text(json.dumps(instance.config))
    return instance


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gemma4", "gpt_oss", "recurrent_gemma"])
def test_a_saved_instance_comes_back_with_the_same_logits(name: str, tmp_path: Path) -> None:
    saved = _save(tmp_path / "checkpoint", name)
    loaded = load(tmp_path / "checkpoint")
    tokens = [[5, 1, 4, 2, 3, 9, 8, 7, 6, 0, 11, 12]]
    assert bool(
        mx.array_equal(saved.forward(tokens, saved.new_cache()), loaded.forward(tokens, loaded.new_cache()))
    )
    assert loaded.geometry == saved.geometry
    assert (loaded.name, loaded.vocab, loaded.module) == ("checkpoint", 4096, saved.module)


def test_ids_are_bounded_by_the_rows_that_the_weights_hold(tmp_path: Path) -> None:
    # The library takes the wrapper's vocabulary; the text config of this one promises more.
    saved = _save(tmp_path / "checkpoint", "gemma3")
    config = {**saved.config, "text_config": {**saved.config["text_config"], "vocab_size": 9999}}
    (tmp_path / "checkpoint" / "config.json").write_text(json.dumps(config))
    assert load(tmp_path / "checkpoint").vocab == 4096


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    for read in (load, read_config):
        with pytest.raises(UnreadableError, match="is not a model directory"):
            read(tmp_path / "nowhere")


def test_a_directory_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"has no config\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config\.json: "),
        ("[]", "must hold a JSON object"),
        ("{}", "names no model_type"),
        ('{"model_type": "llama", "model_file": "evil.py"}', "custom code is not run"),
        ('{"model_type": "llama"}', r"has no model\*\.safetensors"),
    ],
)
def test_a_broken_config_or_no_weights(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UnreadableError, match=message):
        load(tmp_path)


def test_weights_of_a_kind_that_the_library_does_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "weights.gguf").touch()
    with pytest.raises(UnreadableError, match=r"weights\.gguf, which mlx-lm does not read"):
        load(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    _save(tmp_path / "checkpoint", "llama")
    shards = {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}
    index = tmp_path / "checkpoint" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(UnreadableError, match="lacks 1 of 2 shards, first model-00002-of-00002"):
        load(tmp_path / "checkpoint")
    index.write_text("[]")
    with pytest.raises(UnreadableError, match="is not an index of weights"):
        load(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda weights: weights.pop("model.norm.weight"), r"model\.norm\.weight"),
        (lambda weights: weights.update({"model.more.weight": mx.ones((2,))}), r"model\.more\.weight"),
        (lambda weights: weights.update({"model.norm.weight": mx.ones((3,))}), "shape"),
    ],
    ids=["missing", "surplus", "misshapen"],
)
def test_weights_that_do_not_fit_the_config(tmp_path: Path, change: Change, named: str) -> None:
    _save(tmp_path / "checkpoint", "llama", change)
    with pytest.raises(UnreadableError, match=f"the weights do not fit the config: .*{named}"):
        load(tmp_path / "checkpoint")


def test_a_cut_off_weight_file(tmp_path: Path) -> None:
    _save(tmp_path / "checkpoint", "llama")
    weights = tmp_path / "checkpoint" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UnreadableError, match=r"model\.safetensors: is cut off"):
        load(tmp_path / "checkpoint")


@pytest.mark.parametrize("name", ["diffusion_gemma", "frobnicator"])
def test_a_family_that_is_not_installed_cannot_be_judged(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, "num_hidden_layers": 2}))
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UnjudgedError, match=r"mlx-lm .*has no"):
        load(tmp_path)
