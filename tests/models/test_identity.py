"""Keys told by their content: what is remembered, and what a look-up makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models.events import AttentionEvent, Feeding
from mlxdiag.models.identity import AMBIGUOUS, PADDING, UNKNOWN, Memories, Memory, fed_by, visible_keys


def event(q: int, offset: Any = 0, kind: str | None = "dense", layer: int = 0) -> AttentionEvent:
    return AttentionEvent(layer, 0, "Cache", kind, None, None, None, None, offset, 0, 0, 0, None, q)


def ints(*rows: list[int]) -> np.ndarray[Any, Any]:
    return np.array(rows, dtype=np.int64)


def looked_up(memory: Memory, *contents: int, seq: int = 0) -> list[tuple[int, int]]:
    hashes = ints(list(contents))
    key_seq, key_pos, _ = memory.look_up(hashes, hashes == 0, np.array([seq]))
    return list(zip(key_seq[0].tolist(), key_pos[0].tolist(), strict=True))


class TestMemory:
    def test_keys_are_found_wherever_they_went(self) -> None:
        memory = Memory()
        memory.insert(ints([11, 12], [21, 22]), ints([0, 0], [1, 1]), ints([0, 1], [5, 6]))
        assert looked_up(memory, 22, 11, 12) == [(1, 6), (0, 0), (0, 1)]

    def test_what_was_never_appended_and_what_is_zero(self) -> None:
        memory = Memory()
        memory.insert(ints([11]), ints([0]), ints([0]))
        assert looked_up(memory, 99, 0, 11) == [(UNKNOWN, -1), (PADDING, -1), (0, 0)]

    def test_keys_of_zeros_that_a_model_made_are_its_own(self) -> None:
        memory = Memory()
        memory.insert(ints([0, 11]), ints([0, 0]), ints([0, 1]))
        assert looked_up(memory, 0, 11) == [(0, 0), (0, 1)]
        memory.insert(ints([0]), ints([0]), ints([2]))
        assert looked_up(memory, 0) == [(AMBIGUOUS, -1)]

    def test_a_token_that_was_fed_again_makes_the_first_stale(self) -> None:
        memory = Memory()
        memory.insert(ints([11, 12]), ints([0, 0]), ints([0, 1]))
        memory.insert(ints([13]), ints([0]), ints([1]))
        assert looked_up(memory, 12, 13) == [(PADDING, -1), (0, 1)]

    def test_equal_keys_at_two_positions_are_ambiguous(self) -> None:
        memory = Memory()
        memory.insert(ints([11, 11]), ints([0, 0]), ints([0, 1]))
        assert looked_up(memory, 11) == [(AMBIGUOUS, -1)]

    def test_equal_keys_of_two_sequences_are_each_ones_own(self) -> None:
        memory = Memory()
        memory.insert(ints([11], [11]), ints([0], [1]), ints([4], [7]))
        assert looked_up(memory, 11, seq=0) == [(0, 4)]
        assert looked_up(memory, 11, seq=1) == [(1, 7)]

    def test_a_prefix_that_is_taken_over(self) -> None:
        memory = Memory()
        memory.insert(ints([11, 12, 13]), ints([0, 0, 0]), ints([0, 1, 2]))
        memory.adopt(1, 0, 2)
        assert looked_up(memory, 11, 12, 13, seq=1) == [(1, 0), (1, 1), (0, 2)]

    def test_keys_with_a_new_content(self) -> None:
        memory = Memory()
        memory.insert(ints([11, 12]), ints([0, 0]), ints([0, 1]))
        memory.rename(ints([11, 12]), ints([51, 52]))
        assert looked_up(memory, 52, 51) == [(0, 1), (0, 0)]


class TestMemories:
    def recognised(self, memories: Memories, call: AttentionEvent, *contents: int) -> Any:
        hashes = ints(list(contents))
        own = hashes, hashes == 0
        visible = np.ones((1, call.q, len(contents)), bool)
        return memories.recognise("m1", call, own, own, visible, None)

    def test_layers_do_not_share(self) -> None:
        memories = Memories()
        memories.remember("m1", event(2), ints([11, 12]), None)
        assert self.recognised(memories, event(1, 2), 11).key_seq.tolist() == [[0]]
        assert self.recognised(memories, event(1, 2, layer=1), 11).key_seq.tolist() == [[UNKNOWN]]

    def test_a_borrowing_layer_reads_its_owners(self) -> None:
        memories = Memories()
        memories.remember("m1", event(2), ints([11, 12]), None)
        call = event(1, 2, layer=3)
        call.owner = 0
        assert self.recognised(memories, call, 12).key_pos.tolist() == [[1]]

    def test_without_a_cache_nothing_is_kept(self) -> None:
        memories = Memories()
        call = event(2, kind=None)
        assert self.recognised(memories, call, 11, 12).key_pos.tolist() == [[0, 1]]
        assert self.recognised(memories, event(1, 2), 11).key_seq.tolist() == [[UNKNOWN]]

    def test_keys_that_a_layer_changes_after_its_cache_are_those_that_the_cache_returned(self) -> None:
        memories, asked = Memories(), event(2)
        memories.remember("m1", asked, ints([11, 12]), None)
        attended, returned = ((keys, keys == 0) for keys in (ints([51, 52]), ints([11, 12])))
        visible = np.ones((1, 2, 2), bool)
        seen = memories.recognise("m1", asked, attended, returned, visible, None)
        assert seen is not None
        assert (seen.key_seq.tolist(), seen.key_pos.tolist()) == ([[0, 0]], [[0, 1]])
        unknown = memories.recognise("m1", asked, attended, attended, visible, None)
        assert unknown is not None
        assert unknown.key_seq.tolist() == [[UNKNOWN, UNKNOWN]]

    def test_a_mask_that_does_not_fit_is_not_seen(self) -> None:
        hashes = ints([11])
        own = hashes, hashes == 0
        assert Memories().recognise("m1", event(1), own, own, None, None) is None

    def test_clearing(self) -> None:
        memories = Memories()
        memories.remember("m1", event(1), ints([11]), None)
        memories.clear()
        assert self.recognised(memories, event(1, 1), 11).key_seq.tolist() == [[UNKNOWN]]


class TestFeeding:
    def test_without_one_positions_follow_from_the_offset(self) -> None:
        fed = fed_by(event(3, [-1, 4]), None, 2, 3)
        assert fed.positions.tolist() == [[-1, 0, 1], [4, 5, 6]]
        assert fed.real.tolist() == [[False, True, True], [True] * 3]
        assert fed.seq == [0, 1]

    def test_of_another_shape(self) -> None:
        given = Feeding([0], ints([0, 1]), ints([0, 1]) >= 0)
        with pytest.raises(UsageError, match=r"\(1, 2\) tokens, the forward has \(1, 3\)"):
            fed_by(event(3), given, 1, 3)


class TestVisibleKeys:
    def test_none_and_causal(self) -> None:
        assert visible_keys(None, 1, 2, 3).tolist() == [[[True] * 3] * 2]  # type: ignore[union-attr]
        causal = visible_keys("causal", 1, 2, 3)
        assert causal is not None
        assert causal.tolist() == [[[True, True, False], [True, True, True]]]

    def test_numbers_block_where_they_are_very_negative(self) -> None:
        mask = np.array([[0.0, -np.inf, -3.0, np.finfo(np.float16).min]])
        assert visible_keys(mask, 1, 1, 4).tolist() == [[[True, False, True, False]]]  # type: ignore[union-attr]

    def test_heads_are_merged_and_rows_are_not(self) -> None:
        mask = np.zeros((2, 3, 1, 4), bool)
        mask[0, 1, 0, 2] = mask[1, 2, 0, 0] = True
        visible = visible_keys(mask, 2, 1, 4)
        assert visible is not None
        assert [list(np.nonzero(row[0])[0]) for row in visible] == [[2], [0]]

    @pytest.mark.parametrize("shape", [(2, 3), (3, 4), (2, 1, 2, 4), (1, 1, 2, 5)])
    def test_one_that_does_not_fit(self, shape: tuple[int, ...]) -> None:
        """One row of two queries and four keys."""
        assert visible_keys(np.ones(shape, bool), 1, 2, 4) is None

    @pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 1), (2, 4), (1, 2, 4), (1, 3, 2, 4)])
    def test_one_that_broadcasts(self, shape: tuple[int, ...]) -> None:
        visible = visible_keys(np.ones(shape, bool), 1, 2, 4)
        assert visible is not None
        assert visible.shape[1:] == (2, 4)
