from __future__ import annotations

import hashlib
import json

import pytest

from mlxdiag.bundle.collect import modelcard
from mlxdiag.bundle.redact.trace import Redactor
from mlxdiag.errors import UnreadableError
from mlxdiag.traces.reader import parse, read
from tests.bundle.cleaning import messages
from tests.bundle.orders import SAMPLE

CONFIG = {
    "model_type": "gemma3_text",
    "architectures": ["Gemma3ForCausalLM"],
    "_name_or_path": "/Users/zorblax/kestrel-7b",
    "num_hidden_layers": 12,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "eos_token_id": [1, 106],
    "torch_dtype": "bfloat16",
    "quantization": {"bits": 4, "group_size": 64, "by": "zorblax"},
    "zorblax_option": 3,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"one")
    (tmp_path / "kestrel.gguf").write_bytes(b"two")
    return tmp_path


def card(folder):
    return modelcard.of_directory(folder, Redactor(messages()))


def test_geometry_and_hashes_without_names_and_folders(folder):
    told = card(folder)
    assert told["architecture"] == "gemma3_text"
    assert {name: layers["count"] for name, layers in told["layers"].items()} == {"sliding": 10, "full": 2}
    assert told["dtype"] == "bfloat16"
    assert told["quantization"] == {"bits": 4, "group_size": 64}
    assert [file["name"] for file in told["files"]] == ["file-1.gguf", "model-00001-of-00002.safetensors"]
    assert told["files"][1]["sha256"] == hashlib.sha256(b"one").hexdigest()
    assert "zorblax" not in json.dumps(told)
    assert "kestrel" not in json.dumps(told)


def test_a_large_file_is_hashed_by_its_ends_and_says_so(folder, monkeypatch):
    monkeypatch.setattr(modelcard, "WHOLE", 8)
    monkeypatch.setattr(modelcard, "SAMPLE", 4)
    path = folder / "model.safetensors"
    path.write_bytes(b"abcd-middle-wxyz")
    first = card(folder)["files"][-1]
    path.write_bytes(b"abcd-muddle-wxyz")
    assert card(folder)["files"][-1] == first
    assert first["of"] != "the whole file"
    path.write_bytes(b"abcd-middle-wxyZ")
    assert card(folder)["files"][-1]["sha256"] != first["sha256"]


def test_a_hubs_own_checksum_is_taken_as_it_is(folder):
    blob = folder / ("ab" * 32)
    blob.write_bytes(b"x")
    (folder / "weights.safetensors").symlink_to(blob)
    assert card(folder)["files"][-1]["sha256"] == "ab" * 32


def test_without_a_config_it_is_an_error(tmp_path):
    with pytest.raises(UnreadableError, match="--model"):
        card(tmp_path)


def test_how_mlx_lm_reads_the_config_is_told_of_its_own_runs_alone(folder):
    kinds = ["full_attention", "sliding_attention"] * 6
    config = {name: value for name, value in CONFIG.items() if name != "sliding_window_pattern"}
    (folder / "config.json").write_text(json.dumps({**config, "layer_types": kinds}))
    note = "mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types"
    assert note in card(folder)["notes"]
    other = modelcard.of_directory(folder, Redactor(messages()), "transformers")["notes"]
    assert not any(one.startswith("mlx-lm") for one in other)


def test_from_a_trace_alone():
    told = modelcard.of_trace(read(SAMPLE))
    assert told["architecture"] == "gemma4_text"
    assert told["layers"]["sliding"]["window"] == 512
    assert "missing" in modelcard.of_trace(parse("steps: []"))
