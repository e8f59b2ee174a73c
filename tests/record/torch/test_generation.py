"""`generate` in all its loops: whose rows were fed, where, and what came of them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import mlxdiag
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Entry, Trace
from tests.record.accounts import accounts
from tests.record.torch import models

PROMPT, SHORT, ANSWER = 40, 15, 12
IDS = torch.arange(5, 5 + PROMPT)[None]
Recorded = Callable[..., Trace]


def padded() -> dict[str, torch.Tensor]:
    """Two prompts, the second one shorter, padded on the left."""
    ids = torch.zeros(2, PROMPT, dtype=torch.long)
    ids[0] = IDS[0]
    ids[1, PROMPT - SHORT :] = torch.arange(60, 60 + SHORT)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def exactly(tokens: int) -> dict[str, int]:
    """An answer of that length, whatever is drawn."""
    return {"max_new_tokens": tokens, "min_new_tokens": tokens}


def phases(trace: Trace) -> Counter[str]:
    return Counter(entry.kind for entry in trace.entries)


def of_phase(trace: Trace, *phases: str) -> list[Entry]:
    return [entry for entry in trace.entries if entry.kind in phases]


def books(trace: Trace, model: str | None = None) -> dict[str, tuple[int, int, int, int]]:
    """Tokens of the prompt, of it fed, of the answer fed back, and emitted."""
    found = accounts(trace, model)
    return {seq: (a.total, a.prompt, a.answered, a.emitted) for seq, a in found.items()}


def soon(model: Any) -> tuple[int, int]:
    """A token that ends the second of the padded prompts' answers before the first one's, and its number."""
    plain = model.generate(**padded(), max_new_tokens=ANSWER, do_sample=False)
    first, second = plain[:, PROMPT:].tolist()
    return next(
        (t, n + 1) for n, t in enumerate(second) if t not in first and t not in second[:n] and 2 < n < 9
    )


def compared(trace: Trace) -> int:
    """Positions that a replay compares with the single pass; it must find nothing."""
    prepared = experiment.prepare(trace, source="trace.yaml", backend="torch")
    instance = experiment.instance_for(prepared, device="cpu")
    (ran,) = experiment.run_policies(prepared, instance, ("strict",))
    assert ran.report.findings == []
    return ran.outcome.compared


@pytest.mark.parametrize("sample", [False, True])
def test_one_prompt(model: Any, recorded: Recorded, sample: bool) -> None:
    trace = recorded(lambda: model.generate(IDS, **exactly(ANSWER), do_sample=sample))
    assert phases(trace) == {"model": 1, "prefill": 1, "decode": ANSWER - 1, "note": 1, "end": 1}
    assert books(trace) == {"seq-1": (PROMPT, PROMPT, ANSWER - 1, ANSWER)}
    assert accounts(trace)["seq-1"].finish == "length"
    (entry,) = of_phase(trace, "model")
    assert entry.layers is not None
    assert {name: family.window for name, family in entry.layers.items()} == {"sliding": 16, "full": None}


def test_a_second_answer_is_another_sequence(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: [model.generate(IDS, max_new_tokens=2) for _ in range(2)])
    assert list(books(trace)) == ["seq-1", "seq-2"]


def test_rows_behind_left_padding_begin_at_their_own_first_token(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: model.generate(**padded(), max_new_tokens=ANSWER, do_sample=False))
    first = of_phase(trace, "prefill")[0].rows
    assert first is not None
    assert [(r.offset, r.tokens, r.left_padding) for r in first] == [
        (0, PROMPT, None),
        (0, SHORT, PROMPT - SHORT),
    ]
    assert books(trace) == {
        "seq-1": (PROMPT, PROMPT, ANSWER - 1, ANSWER),
        "seq-2": (SHORT, SHORT, ANSWER - 1, ANSWER),
    }


def test_padding_is_known_where_masks_are_made_ahead_for_a_static_cache(
    model: Any, recorded: Recorded
) -> None:
    def work() -> None:
        model.generate(**padded(), max_new_tokens=4, cache_implementation="static", do_sample=False)
        model.generate(IDS[:, :20], max_new_tokens=4, cache_implementation="static", do_sample=False)

    trace = recorded(work)
    assert [book[:2] for book in books(trace).values()] == [(PROMPT, PROMPT), (SHORT, SHORT), (20, 20)]
    calls = [call for entry in of_phase(trace, "prefill", "decode") for call in entry.attention or ()]
    assert {call.cache for call in calls} == {"static", "static_sliding"}


def test_a_row_that_is_done_is_fed_padding_from_then_on(model: Any, recorded: Recorded) -> None:
    end, said = soon(model)
    trace = recorded(
        lambda: model.generate(**padded(), max_new_tokens=ANSWER, do_sample=False, eos_token_id=end)
    )
    assert books(trace)["seq-2"] == (SHORT, SHORT, said, said), "the last of its tokens was fed, too"
    assert [accounts(trace)[seq].finish for seq in ("seq-1", "seq-2")] == ["length", "eos"]
    padding = [row for e in trace.entries for row in e.rows or () if row.seq == "seq-2" and row.tokens == 0]
    assert len(padding) == ANSWER - 1 - said


def test_several_answers_to_one_prompt(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: model.generate(IDS, **exactly(4), do_sample=True, num_return_sequences=3))
    assert books(trace) == {f"seq-{n}": (PROMPT, PROMPT, 3, 4) for n in (1, 2, 3)}


def test_beams_are_rows_and_the_answers_are_told_as_those_of_the_first(
    model: Any, recorded: Recorded
) -> None:
    trace = recorded(
        lambda: model.generate(**padded(), max_new_tokens=4, num_beams=3, num_return_sequences=2)
    )
    emitted = {seq: book[3] for seq, book in books(trace).items()}
    assert emitted == {"seq-1": 4, "seq-2": 4, "seq-3": 0, "seq-4": 4, "seq-5": 4, "seq-6": 0}


def test_a_prompt_in_pieces(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: model.generate(IDS, max_new_tokens=4, prefill_chunk_size=16, do_sample=False))
    fed = [(e.kind, r.offset, r.tokens) for e in of_phase(trace, "prefill", "chunk") for r in e.rows or ()]
    assert fed == [("prefill", 0, 16), ("chunk", 16, 16), ("chunk", 32, 8)]
    assert trace.header.scheduler is not None
    assert trace.header.scheduler.chunk == 16


def test_without_a_cache_every_forward_holds_the_whole_sequence(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: model.generate(IDS, max_new_tokens=4, use_cache=False, do_sample=False))
    fed = [(r.seq, r.offset, r.tokens) for e in of_phase(trace, "prefill") for r in e.rows or ()]
    assert fed == [("seq-1", 0, PROMPT + n) for n in range(4)]
    assert trace.header.scheduler is not None
    assert trace.header.scheduler.cacheless
    assert compared(trace) == 40 + 41 + 42 + 43


def test_without_a_cache_a_row_that_is_done_is_fed_again_with_padding_behind_it(
    model: Any, recorded: Recorded
) -> None:
    end, said = soon(model)
    ask = {**padded(), "max_new_tokens": 8, "do_sample": False, "eos_token_id": end}
    trace = recorded(lambda: model.generate(**ask, use_cache=False))
    rows = [e.rows[1] for e in of_phase(trace, "prefill") if e.rows]
    own = [SHORT + min(n, said) for n in range(8)]
    assert [(r.offset, r.left_padding, r.tokens, r.right_padding or 0) for r in rows] == [
        (0, PROMPT - SHORT, tokens, SHORT + n - tokens) for n, tokens in enumerate(own)
    ]
    assert compared(trace) == sum(PROMPT + n for n in range(8)) + sum(own)


def test_a_cache_that_is_handed_in_again_goes_on_with_its_sequence(model: Any, recorded: Recorded) -> None:
    def work() -> None:
        cache = DynamicCache(config=model.config)
        before = model.generate(IDS, max_new_tokens=4, cache=cache, do_sample=False)
        more = torch.cat([before, torch.arange(60, 70)[None]], dim=1)
        model.generate(more, max_new_tokens=4, cache=cache, do_sample=False)

    trace = recorded(work)
    fed = [
        (e.kind, r.seq, r.offset, r.tokens) for e in of_phase(trace, "prefill", "chunk") for r in e.rows or ()
    ]
    # The last token of the first answer was never fed.
    assert fed == [("prefill", "seq-1", 0, PROMPT), ("chunk", "seq-1", PROMPT + 3, 1 + 10)]
    assert accounts(trace)["seq-1"].emitted == 8


def test_copies_of_a_cache_are_adopted_by_sequences_of_their_own(model: Any, recorded: Recorded) -> None:
    def work() -> None:
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(IDS, cache=cache)
        for start in (60, 80):
            more = torch.cat([IDS, torch.arange(start, start + 5)[None]], dim=1)
            model.generate(more, max_new_tokens=4, cache=copy.deepcopy(cache), do_sample=False)

    trace = recorded(work)
    adopted = [(r.seq, r.restored) for e in of_phase(trace, "adopt") for r in e.rows or ()]
    assert adopted == [("seq-2", PROMPT), ("seq-3", PROMPT)]
    assert books(trace)["seq-3"] == (PROMPT + 5, 5, 3, 4)


def test_drafts_of_an_assistant_are_verified_and_taken_back(model: Any, recorded: Recorded) -> None:
    draft = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    for parameter in draft.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data += 0.05 * parameter.data.std().nan_to_num() * noise
    settings = draft.generation_config
    settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = 4, "constant"
    settings.assistant_confidence_threshold = 0.0
    trace = recorded(lambda: model.generate(IDS, max_new_tokens=24, do_sample=False, assistant_model=draft))
    target = next(e.model for e in trace.entries if e.phase == "verify")
    assert books(trace, target)["seq-1"][3] == 24
    assert {row.seq for e in trace.entries for row in e.rows or ()} == {"seq-1"}, "the draft runs it, too"
    taken = [row for e in of_phase(trace, "rollback") if e.model == target for row in e.rows or ()]
    assert taken
    assert all(r.asked == r.done and r.drafted == (r.accepted or 0) + (r.asked or 0) for r in taken)
    fed = sum(r.tokens or 0 for e in trace.entries if e.model == target for r in e.rows or ())
    back = sum(r.done or 0 for e in trace.entries if e.model == target for r in e.rows or ())
    assert fed - back == PROMPT + 24 - 1, "all but the last token"


def test_a_model_that_drafts_for_itself_runs_the_sequence_twice(model: Any, recorded: Recorded) -> None:
    trace = recorded(lambda: model.generate(IDS, max_new_tokens=8, do_sample=False, assistant_model=model))
    assert set(books(trace)) == {"seq-1", "seq-1-draft"}
    assert books(trace)["seq-1"][3] == 8


def test_drafts_from_the_prompt_itself(recorded: Recorded) -> None:
    ids = torch.tensor([[5, 6, 7, 8, 9, 10] * 6])
    repeating = models.build(tie_word_embeddings=True)
    trace = recorded(
        lambda: repeating.generate(ids, max_new_tokens=24, do_sample=False, prompt_lookup_num_tokens=3)
    )
    assert of_phase(trace, "verify")
    assert of_phase(trace, "rollback")
    book = accounts(trace)["seq-1"]
    assert (book.total, book.prompt, book.emitted, book.finish) == (36, 36, 24, "length")


def test_an_answer_that_is_broken_off_is_aborted(model: Any, tmp_path: Path) -> None:
    class Streamer:
        def __init__(self) -> None:
            self.said = 0

        def put(self, value: torch.Tensor) -> None:
            self.said += 1
            if self.said == 6:
                raise ZeroDivisionError

        def end(self) -> None:
            raise AssertionError("never reached")

    with mlxdiag.recording(tmp_path / "t.yaml") as path, pytest.raises(ZeroDivisionError):
        model.generate(IDS, max_new_tokens=ANSWER, streamer=Streamer())
    book = accounts(read(path))["seq-1"]
    assert (book.finish, book.emitted) == ("abort", 5)


def test_tokens_are_those_that_generate_returned(model: Any, tmp_path: Path) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", tokens=True) as path:
        answers = model.generate(**padded(), **exactly(ANSWER), do_sample=True)[:, PROMPT:].tolist()
    found = accounts(read(path))
    assert [found[seq].labels for seq in ("seq-1", "seq-2")] == answers


def test_a_loop_of_the_users_own_names_its_sequence_by_its_cache(model: Any, recorded: Recorded) -> None:
    def work() -> None:
        caches = [DynamicCache(config=model.config) for _ in range(2)]
        with torch.no_grad():
            for start in range(0, PROMPT, 16):
                for cache in caches:
                    model(IDS[:, start : start + 16], cache=cache)
            model(torch.tensor([[7]]), cache=caches[1])

    trace = recorded(work)
    fed = [(e.kind, r.seq, r.offset) for e in trace.entries for r in e.rows or ()]
    assert fed[:4] == [
        ("prefill", "seq-1", 0),
        ("prefill", "seq-2", 0),
        ("chunk", "seq-1", 16),
        ("chunk", "seq-2", 16),
    ]
    assert fed[-1] == ("decode", "seq-2", PROMPT)
