"""What recording may and may not do to a torch program."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration, modeling_utils
from transformers.cache_utils import Cache, DynamicLayer
from transformers.generation import GenerationMixin, StoppingCriteriaList
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator
from transformers.generation.continuous_batching import continuous_api, requests
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from tests.record.accounts import accounts
from tests.record.torch import models

IDS = torch.arange(5, 45)[None]
ANSWER = 6
METHODS = ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__")


def originals(model: Any) -> list[Any]:
    return [
        modeling_utils.AttentionInterface.get_interface,
        modeling_utils.PreTrainedModel.__init__,
        Cache.update,
        DynamicLayer.crop,
        GenerationMixin._sample,
        GenerationMixin._assisted_decoding,
        StoppingCriteriaList.__call__,
        PromptLookupCandidateGenerator.get_candidates,
        ContinuousBatchingIOs.prepare_batch_tensors,
        continuous_api.ContinuousBatchProcessor._generation_step,
        continuous_api.ContinuousBatchProcessor._handle_request_error,
        continuous_api.ContinuousBatchProcessor.warmup,
        requests.RequestState.update_and_check_completion,
        torch.compile,
        type(model).forward,
    ]


def test_the_originals_are_back_when_the_block_ends(tmp_path: Path, model: Any) -> None:
    before = originals(model)
    with mlxdiag.recording(tmp_path / "t.yaml"):
        assert all(a is not b for a, b in zip(before, originals(model), strict=True))
    assert all(a is b for a, b in zip(before, originals(model), strict=True))


@pytest.fixture
def reads() -> Iterator[Counter[tuple[str, str]]]:
    """Counts every way in which a program can take a value out of a tensor, by who does it."""
    counted: Counter[tuple[str, str]] = Counter()

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counted[name, sys._getframe(1).f_globals.get("__name__", "")] += 1
            return original(*args, **kwargs)

        return call

    before = [(name, getattr(torch.Tensor, name)) for name in METHODS]
    for name, original in before:
        setattr(torch.Tensor, name, counting(name, original))
    yield counted
    for name, original in before:
        setattr(torch.Tensor, name, original)


def own(reads: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {key: count for key, count in reads.items() if key[1].startswith("mlxdiag.")}


def test_the_shapes_level_reads_nothing_but_the_chosen_tokens(
    tmp_path: Path, model: Any, reads: Counter[tuple[str, str]]
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml"):
        reads.clear()
        model.generate(IDS, max_new_tokens=ANSWER, do_sample=False)
        assert sum(reads.values()) > ANSWER, "the counters count: generate itself looks at each token"
        assert own(reads) == {("tolist", "mlxdiag.record.torch.generation"): ANSWER}
        reads.clear()
        with torch.no_grad():
            model(IDS)
            model(IDS, attention_mask=None)
    assert own(reads) == {}


def test_padding_is_read_once_from_a_mask_that_is_on_the_cpu(
    tmp_path: Path, model: Any, reads: Counter[tuple[str, str]]
) -> None:
    mask = torch.ones_like(IDS)
    mask[0, :3] = 0
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        reads.clear()
        model.generate(IDS, attention_mask=mask, max_new_tokens=ANSWER, do_sample=False)
        assert own(reads) == {
            ("numpy", "mlxdiag.models.torch.probe_rows"): 1,
            ("tolist", "mlxdiag.record.torch.generation"): ANSWER,
        }
    assert accounts(read(path))["seq-1"].total == IDS.shape[1] - 3


def test_padding_on_another_device_is_not_observed(tmp_path: Path) -> None:
    """Meta tensors stand for a device whose memory must not be waited for."""
    from mlxdiag.models.torch.probe_rows import of_mask

    assert of_mask(torch.ones(2, 4, device="meta"), 2) is None


def test_a_model_that_is_dropped_is_gone(tmp_path: Path) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml"):
        own_model = models.build()
        own_model.generate(IDS, max_new_tokens=2)
        seen = weakref.ref(own_model)
        del own_model
        gc.collect()
        assert seen() is None


def test_a_model_made_in_the_block_is_followed_from_its_making_on(tmp_path: Path) -> None:
    class Own(type(models.build())):  # type: ignore[misc]
        """A class that nobody has seen before."""

    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        Own(models.build().config).eval().generate(IDS, max_new_tokens=2, do_sample=False)
    assert accounts(read(path))["seq-1"].emitted == 2


def test_encoders_are_left_alone(tmp_path: Path) -> None:
    """Their attention is not causal, and half of an encoder-decoder's looks at another sequence."""
    small: dict[str, Any] = {"vocab_size": 300, "num_hidden_layers": 1}
    bert = BertModel(BertConfig(hidden_size=32, num_attention_heads=2, intermediate_size=32, **small)).eval()
    t5 = T5ForConditionalGeneration(
        T5Config(vocab_size=300, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    ).eval()
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        bert(IDS)
        t5(input_ids=IDS, decoder_input_ids=IDS[:, :4])
    assert not path.exists()


def test_two_libraries_in_one_program_have_models_and_caches_of_their_own(tmp_path: Path, model: Any) -> None:
    mlx = pytest.importorskip("mlx.core")
    from tests.record.models import build

    other = build()
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        caches = other.make_cache()
        other(mlx.arange(5, 15)[None], cache=caches)
        model.generate(IDS, max_new_tokens=2, do_sample=False)
        other(mlx.array([[7]]), cache=caches)
    trace = read(path)
    named = [(e.phase, e.model, r.seq) for e in trace.entries for r in e.rows or () if e.phase != "note"]
    assert named == [
        ("prefill", "m1", "seq-1"),
        ("prefill", "m2", "seq-2"),
        ("decode", "m2", "seq-2"),
        ("decode", "m1", "seq-1"),
    ]
    assert inspect_trace(trace).findings == []


def test_the_visibility_level_sees_what_each_query_attends(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        model.generate(IDS, max_new_tokens=3, do_sample=False)
    trace = read(path)
    calls = [c for e in trace.entries for c in e.attention or ()]
    assert calls
    assert all(call.visible is not None for call in calls)
    assert inspect_trace(trace).findings == []


@pytest.mark.parametrize("use_cache", [True, False])
def test_positions_of_padded_rows_are_no_finding_at_the_visibility_level(
    tmp_path: Path, model: Any, use_cache: bool
) -> None:
    ids = torch.cat([torch.arange(5, 25)[None], torch.arange(60, 80)[None]])
    ids[1, :8] = 0
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        mask = (ids != 0).long()
        model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False, use_cache=use_cache)
        positions = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
        with torch.no_grad():
            model(ids, attention_mask=mask, position_ids=positions, use_cache=use_cache)
    trace = read(path)
    assert len([e for e in trace.entries if e.attention]) == 4
    assert inspect_trace(trace).findings == []


def test_the_header_says_where_and_how_the_first_model_ran(tmp_path: Path, model: Any) -> None:
    other = models.build(attn_implementation="eager")
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        for one in (model, other):
            one.generate(IDS, max_new_tokens=2, do_sample=False)
    trace = read(path)
    assert trace.header.environment is not None
    assert {key: trace.header.environment[key] for key in ("device", "attention")} == {
        "device": "cpu",
        "attention": "sdpa",
    }
    notes = [entry.note for entry in trace.entries if entry.kind == "model"]
    assert notes == [None, "unlike the first model, it runs on device cpu, attention eager"]
    assert inspect_trace(trace).summary.notes == ["recorded on cpu, attention: sdpa"]


def test_the_digest_level_says_that_there_are_none(tmp_path: Path, model: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level="digest") as path:
        model.generate(IDS, max_new_tokens=2, do_sample=False)
    assert "no digests" in (read(path).header.note or "")


def test_a_version_that_is_another_library_is_said_and_the_rest_goes_on(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(requests.RequestState, "update_and_check_completion")
    alone = model.generate(IDS, max_new_tokens=2, do_sample=False)
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        assert torch.equal(model.generate(IDS, max_new_tokens=2, do_sample=False), alone)
        assert capsys.readouterr().err.startswith("mlxdiag: transformers is not recorded: AttributeError")
    assert not path.exists()
    assert capsys.readouterr().err == "", "and nothing more"


def test_an_encoder_decoder_beside_it_is_left_out_and_ends_no_recording(
    tmp_path: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 128}
    other = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).eval()
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        other.generate(IDS % 128, max_new_tokens=3)
        model.generate(IDS, max_new_tokens=2, do_sample=False)
    assert "recording stopped" not in capsys.readouterr().err
    trace = read(path)
    assert {entry.architecture for entry in trace.entries if entry.phase == "model"} == {"gemma3_text"}
    assert len([entry for entry in trace.entries if entry.attention]) == 2
