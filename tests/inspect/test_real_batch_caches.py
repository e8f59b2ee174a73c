"""The real batch caches under random ragged schedules: key counts, row positions, and no finding."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

from mlxdiag.inspect.geometry import returned_keys
from mlxdiag.traces.types import Attention, Entry, Family, Header, Model, Row
from tests.inspect.real_caches import RUNS, inspected, keys_of, mask_field, new_tokens, windows


class Batch(RuleBasedStateMachine):
    """A full and a sliding layer behind one batch scheduler: rows join, leave, and are fed ragged
    chunks.

    The moves are those of `mlx_lm.generate`: single sequences are merged, a new batch extends the
    running one, right-padded prompts are prepared, fed in chunks and finalized, finished rows are
    filtered out or extracted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.singles: dict[str, list[Any]] = {}
        self.lengths: dict[str, int] = {}
        self.rows: list[str] = []
        self.caches: list[Any] = []
        self.named = 0

    @initialize(window=windows)
    def begin(self, window: int) -> None:
        self.window = window

    def name(self) -> str:
        self.named += 1
        self.lengths[f"s{self.named}"] = 0
        return f"s{self.named}"

    def attention(self, caches: list[Any], n: int) -> list[Attention]:
        """Feed `n` tokens to every row of both layers; what the library is asked and what it returns."""
        calls = []
        for cache, family in zip(caches, ("full", "sliding"), strict=True):
            batched = isinstance(cache, BatchKVCache | BatchRotatingKVCache)
            kind = {"full": "dense", "sliding": "rotating"}[family]
            kind = {"dense": "batch", "rotating": "batch_rotating"}[kind] if batched else kind
            offset = cache.offset.tolist() if batched else cache.offset
            cursor = offset if not batched else cache._offset if family == "sliding" else cache._idx
            window = self.window if family == "sliding" else None
            mask = mask_field(cache.make_mask(n, window_size=window, return_array=False))
            predicted = returned_keys(kind, n, cursor, window=window)
            batch = len(offset) if batched else 1
            k = keys_of(cache.update_and_fetch(new_tokens(batch, n), new_tokens(batch, n)))
            assert k == predicted, f"{kind} at {cursor}, {n} new, window {window}: {k}, predicted {predicted}"
            mx.eval(cache.offset if batched else cache.keys)
            calls.append(
                Attention(
                    family=family,
                    cache=kind,
                    window=window,
                    offset=offset,
                    cursor=cursor,
                    q=n,
                    k=k,
                    rope=offset,
                    mask=mask,
                )
            )
        return calls

    def record(self, phase: str, rows: list[Row], attention: list[Attention] | None = None) -> None:
        self.entries.append(Entry(step=len(self.entries), phase=phase, rows=rows, attention=attention))

    def forward(self, caches: list[Any], seqs: list[str], n: int, real: list[int], phase: str) -> None:
        rows = [
            Row(seq=seq, tokens=fed, right_padding=n - fed if fed < n else None)
            for seq, fed in zip(seqs, real, strict=True)
        ]
        self.record(phase, rows, self.attention(caches, n))
        for seq, fed in zip(seqs, real, strict=True):
            self.lengths[seq] += fed

    @rule(chunks=st.lists(st.integers(1, 40), max_size=3))
    def start(self, chunks: list[int]) -> None:
        """A new sequence, fed on its own before it is merged (or not at all: an empty row)."""
        assume(len(self.singles) + len(self.rows) < 5)
        seq = self.name()
        self.singles[seq] = [KVCache(), RotatingKVCache(self.window)]
        for n in chunks:
            self.forward(self.singles[seq], [seq], n, [n], "chunk" if self.lengths[seq] else "prefill")

    @precondition(lambda self: self.singles)
    @rule()
    def join(self) -> None:
        seqs = list(self.singles)
        rows = [self.singles.pop(seq) for seq in seqs]
        merged = [
            cls.merge(list(layer))
            for cls, layer in zip((KVCache, RotatingKVCache), zip(*rows, strict=True), strict=True)
        ]
        self.record(
            "merge",
            [Row(seq=s, declared=r[0].size(), size=r[0].size()) for s, r in zip(seqs, rows, strict=True)],
        )
        if self.rows:
            for running, new in zip(self.caches, merged, strict=True):
                running.extend(new)
            self.record("extend", [Row(seq=seq) for seq in [*self.rows, *seqs]])
        else:
            self.caches = merged
        self.rows += seqs

    @precondition(lambda self: not self.rows and not self.singles)
    @rule(
        left=st.lists(st.integers(0, 12), min_size=1, max_size=4),
        real=st.integers(1, 30),
        chunk=st.integers(2, 20),
    )
    def start_left_padded(self, left: list[int], real: int, chunk: int) -> None:
        left = [pad - min(left) for pad in left]
        self.rows = [self.name() for _ in left]
        self.caches = [BatchKVCache(left), BatchRotatingKVCache(self.window, left)]
        total, done = real + max(left), 0
        while done < total:
            n = min(chunk, total - done)
            fed = [max(0, min(n, done + n - pad)) for pad in left]
            rows = [
                Row(seq=seq, tokens=tokens, left_padding=n - tokens or None)
                for seq, tokens in zip(self.rows, fed, strict=True)
            ]
            self.record("chunk" if done else "prefill", rows, self.attention(self.caches, n))
            for seq, tokens in zip(self.rows, fed, strict=True):
                self.lengths[seq] += tokens
            done += n

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), chunk=st.integers(2, 16))
    def prompt(self, data: st.DataObject, chunk: int) -> None:
        wanted = [data.draw(st.integers(1, 30)) for _ in self.rows]
        longest = max(wanted)
        padding = [longest - n for n in wanted]
        if max(padding):
            for cache in self.caches:
                cache.prepare(lengths=wanted, right_padding=padding)
        done = 0
        while done < longest:
            n = min(chunk, longest - done)
            # One token at a time is decoding, which the library refuses before the finalize.
            n += longest - done - n == 1
            fed = [max(0, min(n, length - done)) for length in wanted]
            self.forward(self.caches, self.rows, n, fed, "chunk")
            done += n
        if max(padding):
            for cache in self.caches:
                cache.finalize()
            self.record("finalize", [Row(seq=seq) for seq in self.rows])

    @precondition(lambda self: self.rows)
    @rule(times=st.integers(1, 12))
    def decode(self, times: int) -> None:
        for _ in range(times):
            self.forward(self.caches, self.rows, 1, [1] * len(self.rows), "decode")

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        kept = data.draw(
            st.lists(st.sampled_from(range(len(self.rows))), min_size=1, unique=True).map(sorted)
        )
        for cache in self.caches:
            cache.filter(kept)
        self.rows = [self.rows[i] for i in kept]
        self.record("filter", [Row(seq=seq) for seq in self.rows])

    @precondition(lambda self: self.rows and self.caches[0].keys is not None)
    @rule(data=st.data())
    def leave_alone(self, data: st.DataObject) -> None:
        """One row goes on as a single sequence."""
        index = data.draw(st.sampled_from(range(len(self.rows))))
        seq = self.rows.pop(index)
        self.singles[seq] = [cache.extract(index) for cache in self.caches]
        self.record("extract", [Row(seq=seq)])
        kept = [i for i in range(len(self.rows) + 1) if i != index]
        if kept:
            for cache in self.caches:
                cache.filter(kept)
        else:
            self.caches = []

    @precondition(lambda self: self.singles)
    @rule(data=st.data(), n=st.integers(1, 20))
    def go_on_alone(self, data: st.DataObject, n: int) -> None:
        seq = data.draw(st.sampled_from(sorted(self.singles)))
        self.forward(self.singles[seq], [seq], n, [n], "decode" if n == 1 else "chunk")

    @precondition(lambda self: self.rows)
    @rule(n=st.integers(1, 6))
    def trim(self, n: int) -> None:
        held = [self.lengths[seq] for seq in self.rows]
        assume(n <= min(held) and all(cache.is_trimmable() for cache in self.caches))
        done = [cache.trim(n) for cache in self.caches]
        assert done == [n, n]
        self.record("trim", [Row(seq=seq, asked=n, done=n) for seq in self.rows])
        for seq in self.rows:
            self.lengths[seq] -= n

    @invariant()
    def rows_are_where_they_were_fed(self) -> None:
        for cache in self.caches:
            assert cache.offset.tolist() == [self.lengths[seq] for seq in self.rows]
        for seq, caches in self.singles.items():
            assert [cache.offset for cache in caches] == [self.lengths[seq]] * 2

    def teardown(self) -> None:
        layers = {
            "full": Family(attention="full"),
            "sliding": Family(attention="sliding", window=self.window),
        }
        report = inspected(Header(model=Model(layers=layers)), self.entries)
        # A row that is left padding for a whole chunk is legal but warned of; nothing else may be said.
        rows = [row for entry in self.entries for row in entry.rows or ()]
        whole = any(row.tokens == 0 and row.left_padding for row in rows)
        assert {finding.code for finding in report.findings} == ({"MD504"} if whole else set()), (
            report.findings
        )


def test_a_healthy_run_of_a_ragged_batch_returns_the_predicted_keys_and_no_finding() -> None:
    run_state_machine_as_test(Batch, settings=settings(RUNS, max_examples=80))
