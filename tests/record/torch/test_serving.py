"""`transformers serve`, a real process with real clients: every token of every request is in the trace."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import FORWARD_PHASES, Trace
from tests.record.accounts import Account, accounts
from tests.record.torch import models, serving
from tests.record.torch.serving import Answer, Request

pytest.importorskip("fastapi", reason="transformers serve needs fastapi and uvicorn")
pytest.importorskip("uvicorn", reason="transformers serve needs fastapi and uvicorn")

REQUESTS = [
    Request(words=60, answer=24),
    Request(words=9, answer=40),
    Request(words=33, answer=200, leave_after=6),
    Request(words=21, answer=12, stream=False),
    Request(words=70, answer=200, leave_after=3),
]
"""Two of them hang up; prompts are shorter and longer than the window of 16."""
TEMPLATE = 5
"""Tokens that the chat template puts around the words."""
BATCHED = ("--continuous-batching", "--cb-max-batch-tokens", "32", "--cb-num-blocks", "64")
PLAIN = ()


class Served(NamedTuple):
    trace: Trace
    answers: list[Answer]
    batched: bool

    @property
    def books(self) -> dict[str, Account]:
        return accounts(self.trace)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(tmp_path_factory.mktemp("saved") / "tiny")


@pytest.fixture(scope="module", params=[PLAIN, BATCHED], ids=["plain", "batched"])
def served(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    trace = tmp_path_factory.mktemp("served") / "t.yaml"
    with serving.server(model, trace, *request.param) as client:
        answers = serving.send_all(client, model, REQUESTS)
    return Served(read(trace), answers, bool(request.param))


def test_every_request_is_in_the_trace_by_the_id_that_its_client_gave_it(served: Served) -> None:
    stayed = {a.ident for a in served.answers if a.request.leave_after is None}
    assert stayed <= set(served.books)
    assert set(served.books) <= {a.ident for a in served.answers}


def test_every_token_of_every_prompt_was_fed(served: Served) -> None:
    for answer in served.answers:
        book = served.books.get(answer.ident)
        if book is None:
            # Hung up on before its turn: nothing of it was ever run.
            assert answer.request.leave_after is not None
            continue
        assert book.total == answer.request.words + TEMPLATE
        assert book.prompt == book.total or book.finish == "abort"


def test_every_answer_has_as_many_tokens_as_its_client_was_told(served: Served) -> None:
    for answer in served.answers:
        if answer.completion is None:
            continue
        book = served.books[answer.ident]
        assert (book.total, book.emitted) == (answer.prompt, answer.completion)
        assert book.answered == book.emitted - 1, "each but the last was fed back"
        assert book.finish == {"length": "length", "stop": "eos"}[answer.finish or ""]


def test_those_who_hung_up_are_aborted(served: Served) -> None:
    left = [a for a in served.answers if a.request.leave_after is not None]
    assert left
    for answer in left:
        book = served.books.get(answer.ident)
        assert book is None or (book.finish == "abort" and book.emitted < answer.request.answer)


def test_several_requests_share_forwards_where_they_are_batched(served: Served) -> None:
    forwards = [entry for entry in served.trace.entries if entry.kind in FORWARD_PHASES]
    widest = max(len(entry.rows or ()) for entry in forwards)
    assert widest >= 3 if served.batched else widest == 1
    kinds = {call.cache for entry in forwards for call in entry.attention or ()}
    assert kinds == ({"paged"} if served.batched else {"rotating", "dense"})


def test_prompts_go_in_pieces_beside_single_tokens(served: Served) -> None:
    if not served.batched:
        pytest.skip("one request at a time")
    mixed = [
        entry
        for entry in served.trace.entries
        if entry.phase == "chunk" and {row.phase or "chunk" for row in entry.rows or ()} >= {"decode"}
    ]
    assert mixed


def test_inspect_finds_nothing(served: Served) -> None:
    report = inspect_trace(served.trace)
    assert report.findings == []
    assert report.summary.not_observed == 0
