from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.models.configs.directory import check_files, read_config, require_geometry


def file_of(tensors: dict[str, object], held: int) -> bytes:
    """A safetensors file: the header's length, the header, and so many bytes of weights."""
    header = json.dumps(tensors).encode()
    return len(header).to_bytes(8, "little") + header + bytes(held)


WHOLE = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}


def test_whole_weights_pass(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(file_of(WHOLE, 16))
    check_files(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes do not hold its header"),
        (b"\0\0", "2 bytes do not hold its header"),
        (file_of(WHOLE, 16)[:40], "40 bytes do not hold its header"),
        ((2**62).to_bytes(8, "little") + b"{}", "10 bytes do not hold its header"),
        (file_of(WHOLE, 15), "is cut off: 15 of 16 bytes of weights are there"),
        (file_of({"a": {"dtype": "F32"}}, 16), "is no safetensors file"),
        ((5).to_bytes(8, "little") + b"[1,2]", "is no safetensors file"),
        ((4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc", "is no safetensors file"),
        ((9 * 10**4).to_bytes(8, "little") + b"[" * 9 * 10**4, "is no safetensors file"),
    ],
)
def test_a_broken_file_of_weights_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(file_of(WHOLE, 16))
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(content)
    with pytest.raises(UnreadableError, match=rf"model-00002-of-00002\.safetensors: .*{message}"):
        check_files(tmp_path)


@pytest.mark.parametrize("target", ["nowhere", "model.safetensors", "."])
def test_a_link_that_leads_to_no_file_is_named(target: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(target)
    with pytest.raises(UnreadableError, match=r"model\.safetensors: cannot be read: "):
        check_files(tmp_path)


@pytest.mark.parametrize("text", ["[" * 10**5, "{", "[]", "{}", '{"model_type": 3}', '{"model_type": ""}'])
def test_a_broken_config_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize("depth", [0, -1, 10**9, "4", None, 1.5])
def test_a_depth_that_no_model_has_is_told_with_its_file(depth: object, tmp_path: Path) -> None:
    config = {"model_type": "frobnicator", "num_hidden_layers": depth}
    with pytest.raises(UnreadableError, match=r"config\.json: config .*num_hidden_layers"):
        require_geometry(tmp_path, config)
