"""The library's own store and its trims, in this process, on a tiny model."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.generate  # noqa: F401  the name is the function's; the module is fetched below
import mlx_lm.models.cache as caches
import pytest

import mlxdiag
from mlxdiag.inspect.findings import codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Row, Trace
from tests.record import models

generate: Any = sys.modules["mlx_lm.generate"]
WINDOW = 16
PROMPT = list(range(5, 13))


@pytest.fixture(scope="module")
def model() -> Any:
    return models.build()


def answer(model: Any, tokens: list[int], cache: Any, count: int = 1) -> list[int]:
    steps = generate.generate_step(mx.array(tokens), model, max_tokens=count, prompt_cache=cache)
    return [token for token, _ in steps]


def recorded(path: Path, program: Callable[[], object]) -> Trace:
    with mlxdiag.recording(path):
        program()
    return read(path)


def row(trace: Trace, phase: str) -> Row:
    (found,) = (entry.rows[0] for entry in trace.entries if entry.kind == phase and entry.rows)
    return found


def filled(model: Any, store: Any) -> None:
    """A store with the cache of PROMPT and one token of its answer."""
    cache = caches.make_prompt_cache(model)
    store.insert_cache("m", PROMPT + answer(model, PROMPT, cache), cache)


def taken(model: Any, store: Any, prompt: list[int]) -> None:
    """What a server does with the prompt of a request."""
    cache, rest = store.fetch_nearest_cache("m", prompt)
    answer(model, rest, cache if cache is not None else caches.make_prompt_cache(model))


@pytest.mark.parametrize(
    ("prompt", "matched", "entry", "trimmed"),
    [
        ([*PROMPT, 70], 8, 9, 1),
        ([*PROMPT[:5], 70, 71], 5, 9, 4),
    ],
    ids=["the whole prompt", "a part of it"],
)
def test_a_hit_tells_what_matched_and_what_was_cut(
    tmp_path: Path, model: Any, prompt: list[int], matched: int, entry: int, trimmed: int
) -> None:
    store = caches.LRUPromptCache()

    def program() -> None:
        filled(model, store)
        taken(model, store, prompt)

    trace = recorded(tmp_path / "t.yaml", program)
    hit = row(trace, "adopt")
    assert (hit.matched, hit.entry, hit.trimmed, hit.restored) == (matched, entry, trimmed, matched)
    assert hit.seq != row(trace, "save").seq, "a copy is a sequence of its own"
    assert inspect_trace(trace).findings == []


def test_a_longer_stored_entry_is_told_with_its_whole_length(tmp_path: Path, model: Any) -> None:
    store = caches.LRUPromptCache()

    def program() -> None:
        filled(model, store)
        taken(model, store, PROMPT)

    hit = row(recorded(tmp_path / "t.yaml", program), "adopt")
    assert (hit.matched, hit.entry, hit.trimmed, hit.restored) == (7, 9, 2, 7)


def test_a_miss_adopts_nothing(tmp_path: Path, model: Any) -> None:
    def program() -> None:
        store = caches.LRUPromptCache()
        filled(model, store)
        taken(model, store, [80, 81, 82])

    assert not [e for e in recorded(tmp_path / "t.yaml", program).entries if e.kind == "adopt"]


def test_a_store_tells_the_length_of_its_key_beside_that_of_the_cache(tmp_path: Path, model: Any) -> None:
    def program() -> None:
        cache = caches.make_prompt_cache(model)
        answer(model, PROMPT, cache)
        caches.LRUPromptCache().insert_cache("m", [*PROMPT, 1, 2, 3], cache)

    saved = row(recorded(tmp_path / "t.yaml", program), "save")
    assert (saved.entry, saved.offset) == (len(PROMPT) + 3, len(PROMPT) + 1)


def test_a_key_that_is_longer_than_its_cache_is_found_when_it_is_adopted(tmp_path: Path, model: Any) -> None:
    store = caches.LRUPromptCache()

    def program() -> None:
        cache = caches.make_prompt_cache(model)
        answer(model, PROMPT, cache)
        store.insert_cache("m", [*PROMPT, 1, 2], cache)
        taken(model, store, [*PROMPT, 1, 2, 70])

    trace = recorded(tmp_path / "t.yaml", program)
    assert (row(trace, "adopt").restored, row(trace, "adopt").matched) == (9, 10)
    assert codes(inspect_trace(trace).findings) == {"MD205"}


def test_a_trim_that_the_library_skips_is_told_as_not_done(tmp_path: Path, model: Any) -> None:
    def program() -> None:
        cache = caches.make_prompt_cache(model)
        answer(model, list(range(5, 25)), cache)
        assert caches.trim_prompt_cache(cache, 3) == 0
        answer(model, [70, 71], cache)

    trace = recorded(tmp_path / "t.yaml", program)
    asked = row(trace, "trim")
    assert (asked.asked, asked.done) == (3, 0)
    assert codes(inspect_trace(trace).findings) == {"MD204"}


def test_an_imported_name_of_the_trim_is_heard_too(tmp_path: Path, model: Any) -> None:
    """`mlx_lm.generate` has imported it by value, long before this recording."""

    def program() -> None:
        cache = caches.make_prompt_cache(model)
        answer(model, list(range(5, 25)), cache)
        generate.trim_prompt_cache(cache, 3)

    assert row(recorded(tmp_path / "t.yaml", program), "trim").done == 0


def test_a_copy_made_by_hand_is_adopted_whole(tmp_path: Path, model: Any) -> None:
    def program() -> None:
        cache = caches.make_prompt_cache(model)
        answer(model, PROMPT, cache)
        answer(model, [70, 71], copy.deepcopy(cache))

    trace = recorded(tmp_path / "t.yaml", program)
    assert (row(trace, "adopt").entry, row(trace, "adopt").restored) == (9, 9)
    assert inspect_trace(trace).findings == []


def test_a_whole_hit_that_no_token_is_left_to_feed_is_told_with_the_error(tmp_path: Path, model: Any) -> None:
    """What the server of mlx-lm 0.32.2 does with a prompt that is in its store to the last token; the error
    ends its generation thread.
    """
    store = caches.LRUPromptCache()

    def program() -> None:
        filled(model, store)
        whole = [*store._lru._lrus["assistant"][0][1]]
        cache, rest = store.fetch_nearest_cache("m", whole)
        assert rest == []
        generator = generate.BatchGenerator(model)
        with pytest.raises(ValueError, match="empty prompt"):
            generator.insert_segments([[]], caches=[cache], all_tokens=[whole])
        generator.close()

    trace = recorded(tmp_path / "t.yaml", program)
    (entry,) = (e for e in trace.entries if e.kind == "adopt")
    assert entry.error is not None
    assert "empty prompt" in (entry.error.text or "")
    assert (row(trace, "adopt").matched, row(trace, "adopt").restored) == (9, 9)
