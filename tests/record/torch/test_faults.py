"""What goes wrong without a word on this side is flagged in the trace of the program that does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache, masking_utils
from transformers.cache_utils import DynamicSlidingWindowLayer
from transformers.models.gemma3 import modeling_gemma3

import mlxdiag
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from tests.record.torch import models

IDS = torch.arange(5, 45)[None]
CHUNK = 16


def ones(ids: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(ids)


def chunks(model: Any, cache: Any, masked: bool) -> None:
    with torch.no_grad():
        for start in range(0, IDS.shape[1], CHUNK):
            piece = IDS[:, start : start + CHUNK]
            # Right would be ones over everything so far.
            mask = ones(piece) if masked else ones(IDS[:, : start + CHUNK])
            model(piece, attention_mask=mask, cache=cache)


def decode(model: Any, cache: Any, columns: int) -> None:
    with torch.no_grad():
        model(IDS, cache=cache)
        for token in range(4):
            held = cache.get_seq_length()
            mask = torch.ones(1, columns or held + 1, dtype=torch.long)
            model(torch.tensor([[7 + token]]), attention_mask=mask, cache=cache)


def found(path: Path) -> set[str]:
    return set(codes(inspect_trace(read(path)).findings))


@pytest.mark.parametrize(("masked", "expected"), [(True, {"MD111"}), (False, set())])
def test_a_padding_mask_of_the_chunk_alone(
    model: Any, tmp_path: Path, masked: bool, expected: set[str]
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        chunks(model, DynamicCache(config=model.config), masked)
    assert found(path) == expected


@pytest.mark.parametrize(("columns", "expected"), [(1, {"MD111"}), (0, set())])
def test_a_padding_mask_of_one_column_at_decode(
    model: Any, tmp_path: Path, columns: int, expected: set[str]
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        decode(model, DynamicCache(config=model.config), columns)
    assert found(path) == expected


def test_a_cache_that_holds_less_than_the_window(model: Any, tmp_path: Path) -> None:
    cache = DynamicCache(config=model.config)
    for layer in cache.layers:
        if isinstance(layer, DynamicSlidingWindowLayer):
            layer.sliding_window = models.WINDOW // 2
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        decode(model, cache, 0)
    assert {"MD207", "MD212"} <= found(path)


def test_a_mask_made_as_if_nothing_were_held(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lengths are those of a first chunk, for which no mask is needed: the newest keys are cut off."""
    right = masking_utils._preprocess_mask_arguments

    def stale(*args: Any, **kwargs: Any) -> Any:
        early, mask, packed, q_length, _, _, _ = right(*args, **kwargs)
        return early, mask, packed, q_length, q_length, 0, 0

    monkeypatch.setattr(masking_utils, "_preprocess_mask_arguments", stale)
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        cache = DynamicCache(config=model.config)
        for start in range(0, 12, 6):
            model(IDS[:, start : start + 6], cache=cache)
    assert "MD110" in found(path)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("level", ["shapes", "visibility"])
def test_a_prefill_that_nothing_keeps_from_looking_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attention: str, level: str
) -> None:
    """No mask is made, and the modules do not ask the kernel to be causal."""
    model = models.build(attn_implementation=attention)
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        monkeypatch.setattr(modeling_gemma3, name, lambda **_: None)
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        model.generate(IDS[:, :12], max_new_tokens=3, do_sample=False)
    trace = read(path)
    assert [call.mask for call in trace.entries[1].attention or []] == [None, None]
    report = inspect_trace(trace)
    assert "MD112" in codes(report.findings)
    told = {family for one in report.findings for family in (one.family or "").split(", ")}
    assert {"sliding", "full"} <= told


def test_beyond_the_window_a_missing_mask_is_why_the_window_is_not_enforced(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        monkeypatch.setattr(modeling_gemma3, name, lambda **_: None)
    for layer in model.model.layers:
        monkeypatch.setattr(layer.self_attn, "is_causal", False)
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        model(IDS)
    sliding, full = inspect_trace(read(path)).findings
    assert (sliding.code, sliding.family, sliding.cause[0][:5]) == ("MD108", "sliding", "MD112")
    assert (full.code, full.family, full.cause) == ("MD112", "full", [])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("level", ["shapes", "visibility"])
@pytest.mark.parametrize("ahead", [True, False])
def test_a_model_that_is_meant_to_look_ahead_does_so_without_fault(
    tmp_path: Path, attention: str, level: str, ahead: bool
) -> None:
    model = models.build(attn_implementation=attention, use_bidirectional_attention=ahead)
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path, torch.no_grad():
        model(IDS[:, :12])
        model(IDS[:, :12], use_cache=False)
    assert found(path) == set()


def test_a_model_that_is_meant_to_look_ahead_needs_no_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.build(use_bidirectional_attention=True)
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        monkeypatch.setattr(modeling_gemma3, name, lambda **_: None)
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        model(IDS[:, : models.WINDOW // 2])  # the config halves its window
    assert {call.mask for entry in read(path).entries for call in entry.attention or []} == {None}
    assert found(path) == set()


def test_generate_itself_with_a_chunk_of_the_mask(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prefill in pieces, as transformers does it, but for the mask."""
    right = type(model).prepare_inputs_for_generation

    def cut(self: Any, input_ids: torch.Tensor, **kwargs: Any) -> Any:
        inputs = right(self, input_ids, **kwargs)
        if inputs.get("attention_mask") is None or not isinstance(inputs["attention_mask"], torch.Tensor):
            inputs["attention_mask"] = ones(inputs["input_ids"])
        return inputs

    monkeypatch.setattr(type(model), "prepare_inputs_for_generation", cut)
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        model.generate(IDS, max_new_tokens=3, prefill_chunk_size=CHUNK, do_sample=False)
    assert "MD111" in found(path)


def test_a_mask_that_does_not_fit_is_in_the_trace_with_the_error_that_it_raised(
    model: Any, tmp_path: Path
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        cache = DynamicCache(config=model.config)
        model(IDS[:, :12], cache=cache)
        with pytest.raises(RuntimeError, match="must match the size"):
            model(IDS[:, 12:17], attention_mask=torch.ones(1, 1, 5, 5, dtype=torch.bool), cache=cache)
    trace = read(path)
    failed = next(entry for entry in trace.entries if entry.error is not None)
    assert failed.step == 1
    assert "size of tensor a (17)" in ((failed.error and failed.error.text) or "")
    assert {"MD901"} <= set(codes(inspect_trace(trace).findings))


def test_a_ring_that_evicts_too_early_is_one_fault(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = DynamicSlidingWindowLayer.update

    def update(layer: Any, *args: Any, **kwargs: Any) -> Any:
        returned = right(layer, *args, **kwargs)
        layer.keys = layer.keys[:, :, -models.WINDOW + 4 :]
        layer.values = layer.values[:, :, -models.WINDOW + 4 :]
        return returned

    monkeypatch.setattr(DynamicSlidingWindowLayer, "update", update)
    with mlxdiag.recording(tmp_path / "t.yaml") as path, pytest.raises(RuntimeError):
        model.generate(IDS, max_new_tokens=3, do_sample=False)
    (headline,) = inspect_trace(read(path)).findings
    assert (headline.code, [cause.split()[0] for cause in headline.cause]) == (
        "MD901",
        ["MD102", "MD201", "MD207"],
    )


def test_a_static_cache_that_still_holds_a_longer_request(model: Any, tmp_path: Path) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        cache = StaticCache(config=model.config, max_cache_len=80)
        model.generate(IDS, cache=cache, min_new_tokens=4, max_new_tokens=4, disable_compile=True)
        with pytest.raises(RuntimeError):
            model.generate(IDS[:, :9], cache=cache, max_new_tokens=4, disable_compile=True)
    (found,) = inspect_trace(read(path)).findings
    assert found.code == "MD906"
    # The last token was never fed.
    assert "0 tokens were fed" in found.cause[0]
    assert f"holds {IDS.shape[1] + 3} tokens" in found.cause[0]
