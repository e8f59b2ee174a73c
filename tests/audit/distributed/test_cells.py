"""Cells from words of ranks that were made up: what is a pass, whose fault it is, and what is said of it."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.distributed import cells
from mlxdiag.audit.distributed.launch import RANKS, Launch
from mlxdiag.audit.distributed.told import TENSOR, Difference, Seen, Told

ITEM = f"gemma3_text:{TENSOR}"


class Ended(Launch):
    """A launch that is over: how its ranks ended, and what they wrote."""

    lost = ("peer is gone",)

    def __init__(self, status: Sequence[int | None], written: Sequence[str] = ("", "")) -> None:
        super().__init__([ITEM], 0, ("none",))
        self._status, self._written = list(status), written

    def program(self) -> tuple[str, ...]:
        return ()

    def start(self) -> None:
        raise AssertionError

    def stop(self) -> None:
        raise AssertionError

    def status(self) -> list[int | None]:
        return self._status

    def stderr(self, rank: int) -> str:
        return self._written[rank]


def difference(*positions: int, max_abs: float = 0.0) -> Difference:
    return Difference("chunked prefill", 19, max_abs, 0.5, list(positions), 1.0 if positions else None)


def done(*differences: Difference, weights: int = 60, seen: Sequence[Seen] = ()) -> Told:
    return Told(
        "gemma3_text",
        TENSOR,
        "done",
        differences=list(differences),
        seen=list(seen),
        judged={"visibility": 38, "geometry": 8},
        weights=weights,
        whole=100,
    )


def failed(reason: str, **given: str) -> Told:
    told = {"where": "transformers/models/gemma3/modeling_gemma3.py:1", "during": "splitting", **given}
    return Told("gemma3_text", TENSOR, "failed", reason=reason, error="ValueError", **told)


def told(*words: Told) -> Cell:
    return cells.told("transformers", ITEM, words)


def test_ranks_that_agree_with_one_process_pass_and_are_counted_together() -> None:
    cell = told(done(difference()), done(difference()))
    assert (cell.library, cell.family, cell.scenario) == ("transformers", "gemma3_text", TENSOR)
    assert cell.result == "pass"
    assert cell.judged == {"geometry": 16, "visibility": 76, "parity": 38}


@pytest.mark.parametrize("whole", [0, 1])
def test_a_rank_that_holds_the_whole_model_is_no_pass(whole: int) -> None:
    words = [done(difference(), weights=100 if rank == whole else 50) for rank in range(RANKS)]
    cell = told(*words)
    assert cell.result == "skipped"
    assert cell.reason.startswith(f"rank {whole} holds the whole model")


def test_ranks_that_compared_nothing_are_no_pass() -> None:
    assert told(done(), done()).result == "skipped"


def test_logits_that_differ_are_a_fail_with_the_worst_of_them() -> None:
    cell = told(done(difference()), done(difference(7, 9, max_abs=2.0)))
    assert (cell.result, cell.codes, cell.oracles) == ("fail", ["MD402"], ["parity"])
    assert "chunked prefill: the logits of rank 1 differ" in cell.reason
    assert cell.evidence["positions"] == [7, 9]
    assert cell.evidence["pieces"] == [5, 5, 5, 4]


def test_what_a_rank_saw_names_the_rank_even_where_the_other_one_has_the_worse_logits() -> None:
    seen = Seen(
        "chunked prefill", ["MD302"], "step 2: a key too many", 2, "a", [0], [8], "modeling_gemma3.py:527"
    )
    cell = told(done(difference(8, max_abs=9.0)), done(difference(8, max_abs=1.0), seen=[seen]))
    assert cell.result == "fail"
    assert cell.codes == ["MD302", "MD402"]
    assert cell.oracles == ["visibility", "parity"]
    assert cell.reason == "rank 1, chunked prefill: step 2: a key too many"
    assert cell.where == "modeling_gemma3.py:527"
    assert (cell.evidence["rank"], cell.evidence["step"], cell.evidence["layers"]) == (1, 2, [0])


def test_what_a_rank_saw_wrongly_is_a_fail_where_logits_agree() -> None:
    seen = Seen("chunked prefill", ["MD302"], "step 2: a key too many", 2)
    cell = told(done(difference(), seen=[seen]), done(difference()))
    assert (cell.result, cell.codes, cell.oracles) == ("fail", ["MD302"], ["visibility"])


def test_what_fails_alike_in_every_rank_is_one_crash() -> None:
    word = failed("sizes do not match", during="chunked prefill")
    word.alike = True
    cell = told(word, word)
    assert (cell.result, cell.codes) == ("crash", ["MD906"])
    assert cell.reason == "every rank, chunked prefill: ValueError: sizes do not match"


def test_the_rank_that_failed_by_itself_is_blamed_not_the_one_that_was_left_alone() -> None:
    words = [failed("the peer is gone", during="chunked prefill"), failed("no such head", during="splitting")]
    cell = cells.broken("transformers", ITEM, words, Ended([3, 3]))
    assert cell.result == "crash"
    assert cell.reason == "rank 1, splitting: ValueError: no such head"
    assert cell.where == "transformers/models/gemma3/modeling_gemma3.py:1"


def test_a_rank_that_was_killed_is_blamed_not_the_one_that_was_left_alone() -> None:
    words = [failed("the peer is gone"), Told("gemma3_text", TENSOR, "begun")]
    cell = cells.broken("transformers", ITEM, words, Ended([3, -signal.SIGKILL], ("", "Out of memory")))
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert cell.reason == "rank 1 ended with SIGKILL: Out of memory"


@pytest.mark.parametrize("during", ["splitting", "chunked prefill"])
def test_a_refusal_is_one_while_it_is_split_and_never_later(during: str) -> None:
    words = [failed("Tensor parallelism is not supported on MPS devices.", during=during), None]
    cell = cells.broken("transformers", ITEM, words, Ended([3, None]))
    assert cell.result == ("unsupported" if during == "splitting" else "crash")


def test_a_fault_of_this_program_says_nothing_of_the_library() -> None:
    words = [failed("ours", where=""), None]
    cell = cells.broken("transformers", ITEM, words, Ended([3, None]))
    assert (cell.result, cell.codes) == ("skipped", [])
    assert cell.reason.startswith("not judged: mlxdiag failed on it")


def test_ranks_that_are_silent_wait_for_each_other() -> None:
    words = [Told("gemma3_text", TENSOR, "begun"), Told("gemma3_text", TENSOR, "begun")]
    cell = cells.broken("transformers", ITEM, words, Ended([None, None]))
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert "wait for each other" in cell.reason
