"""The real `mlx_lm server`, as it is, under `mlxdiag record`, and the real `openai` client."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Trace
from tests.record import tinymodel, words
from tests.record.accounts import Account, accounts
from tests.record.serving import Answer, Request, send_all, server

CHUNK = 16
FIRST = [Request(shared=20, own=4, answer=6)]
"""Alone, so that the others find its prompt in the server's store."""
REQUESTS = [
    Request(shared=20, own=4, answer=12),
    Request(shared=20, own=9, answer=30),
    Request(shared=20, own=30, answer=8),
    Request(shared=0, own=1, answer=40),
    Request(shared=0, own=60, answer=25),
    Request(shared=5, own=5, answer=4000, leave_after=5),
    Request(shared=0, own=90, answer=4000, leave_after=3),
    Request(shared=20, own=0, answer=16, kind="text"),
]
TEMPLATE = 5
"""Tokens that the chat template adds."""
ABORTED = 134
"""Without mlxdiag, too, one in three of these servers is aborted by MLX when Ctrl-C has ended it ("terminate
called without an active exception", mlx 0.32.4 on the CPU). The recording is whole by then.
"""


class Run:
    def __init__(self, answers: list[Answer], path: Path, log: str) -> None:
        self.answers = answers
        self.path = path
        self.log = log
        self.trace: Trace = read(path)
        self.books: dict[str, Account] = accounts(self.trace)

    @property
    def completed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.request.leave_after is None]

    @property
    def left(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.request.leave_after is not None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("server")
    model, path = tinymodel.save(folder / "model"), folder / "trace.yaml"
    small = ("--prefill-step-size", str(CHUNK), "--decode-concurrency", "4", "--prompt-concurrency", "3")
    with server(model, path, *small) as client:
        answers = send_all(client, FIRST) + send_all(client, REQUESTS)
    return Run(answers, path, (folder / "server.log").read_text())


def test_the_trace_is_whole_and_the_server_felt_nothing(run: Run) -> None:
    assert run.trace.warnings == ()
    assert not run.trace.truncated
    assert run.trace.entries[-1].kind == "end"
    assert run.trace.entries[-1].exit in (0, ABORTED)
    assert "recording stopped" not in run.log
    assert "generation thread died" not in run.log


AS_A_CLIENT_SEES = {"eos": "stop"}
"""A random model may hit its end token; the protocol has one word for that and for a stop word."""


def test_every_request_is_a_sequence_whose_tokens_add_up_to_what_the_client_was_told(run: Run) -> None:
    told = sorted((a.prompt, a.cached, a.completion, a.finish) for a in run.completed)
    served = [b for b in run.books.values() if b.finish != "abort"]
    kept = sorted((b.total, b.adopted, b.emitted, AS_A_CLIENT_SEES.get(b.finish, b.finish)) for b in served)
    assert kept == told


def test_every_prompt_token_is_either_adopted_or_fed_once_and_every_answer_is_fed_back(run: Run) -> None:
    for name, book in run.books.items():
        assert (name, book.adopted + book.prompt) == (name, book.total)
        assert (name, book.answered) == (name, book.emitted)


def test_a_client_that_hangs_up_is_seen_to_leave_with_what_it_was_sent(run: Run) -> None:
    gone = {b.total: b for b in run.books.values() if b.finish == "abort"}
    assert set(gone) == {a.request.shared + a.request.own + TEMPLATE for a in run.left}
    for answer in run.left:
        book = gone[answer.request.shared + answer.request.own + TEMPLATE]
        assert answer.chunks <= book.emitted < answer.request.answer


def test_prefixes_were_shared_through_the_store(run: Run) -> None:
    hits = [e.rows[0] for e in run.trace.entries if e.kind == "adopt" and e.rows]
    cached = sorted(a.cached for a in run.completed if a.cached)
    assert sorted(row.matched for row in hits if _finish(run, row.seq) != "abort") == cached
    assert any(row.trimmed for row in hits), "some hit was to be cut from a longer entry"
    assert all(row.restored == row.matched == (row.entry or 0) - (row.trimmed or 0) for row in hits)


def test_rows_join_and_leave_ragged_batches(run: Run) -> None:
    forwards = [e for e in run.trace.entries if e.attention and e.rows]
    sizes = {len(e.rows or ()) for e in forwards}
    assert max(sizes) >= 3
    assert any(row.right_padding for e in forwards for row in e.rows or ())
    assert any(row.left_padding for e in forwards for row in e.rows or ())
    kinds = {e.kind for e in run.trace.entries}
    assert {"prefill", "chunk", "decode", "merge", "filter", "extend", "finalize", "adopt", "save"} <= kinds


def test_the_scheduler_and_the_caches_agree_at_every_step(run: Run) -> None:
    for entry in run.trace.entries:
        for call in entry.attention or ():
            held = call.offset if isinstance(call.offset, list) else [call.offset] * len(entry.rows or ())
            assert [row.offset for row in entry.rows or ()] == held


def test_inspect_is_right_that_nothing_is_wrong(run: Run) -> None:
    report = inspect_trace(run.trace)
    aborted = run.trace.entries[-1].exit == ABORTED
    assert [finding.code for finding in report.findings] == (["MD902"] if aborted else [])
    assert report.summary.not_observed == 0
    assert report.summary.calls > 100


def test_the_run_replays_call_by_call(run: Run) -> None:
    prepared = experiment.prepare(run.trace, source="server")
    (ran,) = experiment.run_policies(prepared, experiment.instance_for(prepared), ("strict",))
    assert ran.report.findings == []
    assert ran.outcome.crash is None
    assert ran.outcome.first_wrong is None
    assert ran.outcome.compared > 300
    assert keys(ran.trace) == keys(run.trace)


def test_nothing_of_what_was_asked_or_answered_is_in_the_file(run: Run) -> None:
    text = run.path.read_text()
    assert "word-" not in text
    assert "messages" not in text
    labels = [label for book in run.books.values() for label in book.labels]
    assert len(labels) == sum(book.emitted for book in run.books.values())
    assert max(labels) > tinymodel.VOCABULARY, "labels were to be drawn from more numbers than there are ids"


def test_a_prompt_cache_stored_after_drafts_is_one_token_short_in_mlx_lm_and_inspect_says_so(
    tmp_path: Path,
) -> None:
    """mlx-lm 0.32.2: the last token that the target chose itself is part of the key under which
    `_serve_single` stores the cache, but was never fed: whoever is handed it goes on one position too early.
    """
    model = tinymodel.save(tmp_path / "model")
    draft = tinymodel.draft_of(model, tmp_path / "draft", noise=1.0)
    path = tmp_path / "trace.yaml"
    with server(model, path, "--draft-model", str(draft), "--num-draft-tokens", "2") as client:
        prompt = words.text(3)
        for _ in range(2):
            done = client.completions.create(
                model="default_model", prompt=prompt, max_tokens=6, temperature=0.0, stream=False
            )
            prompt = f"{prompt} {done.choices[0].text.strip()} {words.text(2, start=70)}"
    trace = read(path)
    stored = [e.rows[0] for e in trace.entries if e.kind == "save" and e.rows]
    adopted = [e for e in trace.entries if e.kind == "adopt"]
    assert stored[0].entry == 9
    assert stored[0].offset == 8
    assert len({e.model for e in adopted}) == len(adopted) == 2
    found = [f for f in inspect_trace(trace).findings if f.code == "MD205"]
    assert [f.evidence["restored"] for f in found] == [8]


def _finish(run: Run, seq: str | None) -> str | None:
    return run.books[seq or ""].finish


def keys(trace: Trace) -> dict[tuple[int | None, str | None], object]:
    """Returned keys by step and family."""
    calls = ((e.step, c) for e in trace.entries for c in e.attention or ())
    return {(step, call.family): call.k for step, call in calls if call.k is not None}
