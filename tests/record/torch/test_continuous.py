"""Continuous batching in this process: requests by their ids, and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching import requests

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.events import StepEvent
from mlxdiag.record.output import File
from mlxdiag.record.recorder import SKIPPED, Recorder
from mlxdiag.record.torch.continuous import Request, Step, _prompt_of
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import FORWARD_PHASES, Header, Trace
from tests.record.accounts import accounts
from tests.record.torch import models

LENGTHS = (40, 7, 23, 60)
ANSWER = 8
GENERATION = GenerationConfig(max_new_tokens=ANSWER, do_sample=False, eos_token_id=-1, pad_token_id=0)
Recorded = Callable[..., Trace]


def batching(**more: Any) -> ContinuousBatchingConfig:
    """At most 32 tokens a step, so that prompts go in pieces beside the answers of others."""
    return ContinuousBatchingConfig(**{"max_batch_tokens": 32, "num_blocks": 64, "page_size": 16, **more})


def first(manager: Any, ident: str) -> Any:
    """The next output of a request; those of others come in between."""
    return next(iter(manager.request_id_iter(ident)))


def test_every_request_is_accounted_for(model: Any, recorded: Recorded) -> None:
    answers: dict[str, Any] = {}

    def work() -> None:
        prompts = [list(range(5, 5 + n)) for n in LENGTHS]
        answers.update(
            model.generate_batch(
                prompts,
                generation_config=GENERATION,
                continuous_batching_config=batching(),
                progress_bar=False,
            )
        )

    trace = recorded(work, tokens=True)
    books = accounts(trace)
    assert len(answers) == len(LENGTHS)
    for ident, answer in answers.items():
        book = books[ident]
        assert (book.total, book.prompt) == (len(answer.prompt_ids), len(answer.prompt_ids))
        assert book.labels == list(answer.generated_tokens)
        assert (book.answered, book.finish) == (ANSWER - 1, "length")
    mixed = [e for e in trace.entries if {r.phase for r in e.rows or ()} >= {"decode", "prefill"}]
    assert mixed, "prompts beside answers"
    assert all(call.cache == "paged" for e in trace.entries for call in e.attention or ())


def test_a_request_of_the_same_id_is_another_sequence(model: Any, recorded: Recorded) -> None:
    def work() -> None:
        for _ in range(2):
            model.generate_batch(
                [list(range(5, 15))],
                generation_config=GENERATION,
                continuous_batching_config=batching(),
                progress_bar=False,
            )

    assert list(accounts(recorded(work, tokens=True))) == ["req_0", "req_0-2"]


def test_a_prefix_that_another_request_has_filled_is_adopted(model: Any, recorded: Recorded) -> None:
    full = models.build(layer_types=["full_attention"] * models.LAYERS)
    prefix = list(range(5, 53))

    def work() -> None:
        config = batching(page_size=16, allow_block_sharing=True)
        with full.continuous_batching_context_manager(
            generation_config=GENERATION, continuous_batching_config=config
        ) as manager:
            for number, tail in enumerate((60, 80)):
                manager.add_request([*prefix, tail], request_id=f"r{number}")
                assert first(manager, f"r{number}")

    trace = recorded(work, tokens=True)
    (adopted,) = [row for e in trace.entries if e.phase == "adopt" for row in e.rows or ()]
    assert (adopted.seq, adopted.restored) == ("r1", 48)
    book = accounts(trace)["r1"]
    assert (book.total, book.adopted, book.prompt) == (49, 48, 1)


def test_a_cancelled_request_is_aborted(model: Any, recorded: Recorded) -> None:
    def work() -> None:
        config = GenerationConfig(max_new_tokens=400, do_sample=False, eos_token_id=-1, pad_token_id=0)
        with model.continuous_batching_context_manager(
            generation_config=config, continuous_batching_config=batching()
        ) as manager:
            manager.add_request(list(range(5, 15)), request_id="gone", streaming=True)
            assert first(manager, "gone")
            manager.cancel_request("gone")
            manager.add_request(list(range(5, 15)), request_id="stays", max_new_tokens=3)
            assert first(manager, "stays")

    books = accounts(recorded(work, tokens=True))
    assert books["gone"].finish == "abort"
    assert 0 < books["gone"].emitted < 400
    assert (books["stays"].finish, books["stays"].emitted) == ("length", 3)


def test_a_step_that_runs_no_python_is_told_of_by_its_schedule(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a captured graph is replayed, which needs a GPU: the forward of the model is not run."""
    from transformers.generation.continuous_batching.model_runner import ModelRunner

    def replayed(runner: Any, model: Any, *_: Any) -> None:
        runner.inputs_and_outputs.output_ids.fill_(7)

    monkeypatch.setattr(ModelRunner, "_forward_process_and_sample", replayed)
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        model.generate_batch(
            [list(range(5, 15))],
            generation_config=GENERATION,
            continuous_batching_config=batching(),
            progress_bar=False,
        )
    trace = read(path)
    forwards = [entry for entry in trace.entries if entry.kind in FORWARD_PHASES]
    assert [entry.kind for entry in forwards] == ["prefill", *["decode"] * (ANSWER - 1)]
    assert all("not observed" in (entry.note or "") for entry in forwards)
    report = inspect_trace(trace)
    assert report.summary.not_observed == len(forwards)
    assert report.summary.judged == 0
    book = accounts(trace)["req_0"]
    assert (book.total, book.prompt, book.emitted) == (10, 10, ANSWER)


def test_what_packed_requests_attend_is_not_told_at_the_visibility_level(model: Any, tmp_path: Path) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        model.generate_batch(
            [list(range(5, 15)), list(range(5, 25))],
            generation_config=GENERATION,
            continuous_batching_config=batching(),
            progress_bar=False,
        )
    trace = read(path)
    assert inspect_trace(trace).findings == []
    forwards = [entry for entry in trace.entries if entry.kind in FORWARD_PHASES]
    assert all("visibility not observed" in (entry.note or "") for entry in forwards)


@pytest.mark.parametrize(("own", "runs"), [("sdpa", "sdpa"), ("eager", "paged|eager")])
def test_the_header_says_with_which_attention_pages_are_read(tmp_path: Path, own: str, runs: str) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        models.build(attn_implementation=own).generate_batch(
            [list(range(5, 15))],
            generation_config=GENERATION,
            continuous_batching_config=batching(),
            progress_bar=False,
        )
    assert (read(path).header.environment or {})["attention"] == runs


def test_a_graph_that_is_captured_by_running_the_forward_again_is_told_of_once(tmp_path: Path) -> None:
    output = File(tmp_path / "t.yaml", Header)
    step = Step(Recorder(output), [(Request("r", prompt=7), 0, 7)])
    event = StepEvent("m1", 1, 7, [])
    told = step.rows(event)
    assert told is not None
    assert [(row.seq, row.offset, row.tokens) for row in told[0]] == [("r", 0, 7)]
    assert step.rows(event) is SKIPPED


def test_a_request_that_was_put_back_to_its_start_has_the_prompt_that_it_came_with() -> None:
    state = requests.RequestState("r", initial_tokens=[5, 6, 7, 8, 9])
    assert _prompt_of(state) == 5
    state.generated_tokens = [60, 61]
    assert _prompt_of(state.create_equivalent_initial_request()) == 5
