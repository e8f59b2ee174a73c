"""Where the tokens of a prompt cache come from is told once, of each model that runs over a part of it."""

from __future__ import annotations

from mlx_lm.models.cache import KVCache

from mlxdiag.models.events import AttentionEvent, StepEvent
from mlxdiag.models.mlx.probe_tags import uids_of
from mlxdiag.record.origins import BOUND, Origin, Origins
from mlxdiag.traces.types import Row

HIT = Origin("adopt", "seq-2", matched=5, entry=9, trimmed=4)


def forward(model: str, caches: list[KVCache], offset: int) -> StepEvent:
    call = AttentionEvent(0, 0, "KVCache", "dense", None, None, None, None, offset, offset, 0, offset, 256, 1)
    return StepEvent(model, 1, 1, [call], uids=uids_of(caches))


def test_target_and_draft_each_tell_what_they_hold() -> None:
    target, draft = [KVCache(), KVCache()], [KVCache()]
    origins = Origins()
    origins.remember(uids_of(target + draft), HIT)
    told = [origins.arriving(forward("m1", draft, 4)), origins.arriving(forward("m2", target, 5))]
    row = Row(seq="seq-2", matched=5, entry=9, trimmed=4)
    assert [entry.model for entry in told if entry] == ["m1", "m2"]
    assert [entry.rows[0].restored for entry in told if entry and entry.rows] == [4, 5]
    assert all(entry and entry.rows and entry.rows[0].matched == row.matched for entry in told)


def test_it_is_told_once() -> None:
    caches, origins = [KVCache(), KVCache()], Origins()
    origins.remember(uids_of(caches), HIT)
    assert origins.arriving(forward("m1", caches, 5)) is not None
    assert origins.arriving(forward("m1", caches, 6)) is None
    assert origins.take(uids_of(caches)) is None


def test_caches_of_nobody_are_told_of_by_nobody() -> None:
    origins = Origins()
    origins.remember(uids_of([KVCache()]), HIT)
    assert origins.arriving(forward("m1", [KVCache()], 0)) is None


def test_a_file_says_how_much_it_held_and_nothing_of_a_match() -> None:
    entry = Origin("load", "seq-1").told(23, "m1")
    assert entry.phase == "load"
    assert entry.rows == [Row(seq="seq-1", restored=23)]


def test_what_is_never_fed_is_forgotten_at_last() -> None:
    origins = Origins()
    first = [KVCache()]
    origins.remember(uids_of(first), HIT)
    for _ in range(BOUND):
        origins.remember(uids_of([KVCache()]), HIT)
    assert origins.take(uids_of(first)) is None
