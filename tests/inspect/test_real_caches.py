"""The geometry and the rules against the real cache classes: random healthy runs, both sides of the window.

Nothing here repeats a formula of the package: key counts come from arrays that the library returned. Every
run is also written as a trace, and the inspector must find nothing in it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from mlx_lm.models.cache import ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache
from msgspec import UNSET

from mlxdiag.inspect.geometry import returned_keys
from mlxdiag.models.mlx.caches import BufferedRotatingKVCache, FrontTrimKVCache
from mlxdiag.traces.types import Attention, Entry, Family, Header, Model, Row, Scheduler
from tests.inspect.real_caches import RUNS, inspected, keys_of, lengths, mask_field, new_tokens, windows


class OneSequence(RuleBasedStateMachine):
    """A cache of one sequence: appended to, decoded from, trimmed and rolled back."""

    kind = "dense"
    family = "full"
    layer: dict[str, Any] = {"attention": "full"}
    scheduler: Scheduler | None = None
    dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.window = 0

    @initialize(window=windows)
    def begin(self, window: int) -> None:
        self.window = self.allowed(window)
        self.cache = self.make()

    def allowed(self, window: int) -> int:
        return window

    def make(self) -> Any:
        return KVCache()

    def facts(self) -> dict[str, Any]:
        """What a recorder sees of the cache before a call, beyond the offset."""
        return {}

    def mask(self, n: int) -> Any:
        return mask_field(self.cache.make_mask(n, window_size=None, return_array=False))

    def can_trim(self, n: int) -> bool:
        return 0 < n <= self.cache.offset and self.cache.is_trimmable()

    def call(self, n: int, phase: str | None = None) -> None:
        offset, facts, mask = self.cache.offset, self.facts(), self.mask(n)
        known = {name: facts[name] for name in ("window", "keep", "slack", "live", "buffer") if name in facts}
        predicted = returned_keys(self.kind, n, offset, **known)
        assert predicted is not None
        k = keys_of(self.cache.update_and_fetch(new_tokens(1, n, self.dim), new_tokens(1, n, self.dim)))
        assert k == predicted, (
            f"{self.kind} at {offset}, {n} new, {facts}: returned {k}, predicted {predicted}"
        )
        self.entries.append(
            Entry(
                step=len(self.entries),
                phase=phase or ("decode" if n == 1 else "chunk" if offset else "prefill"),
                rows=[Row(seq="a", offset=offset, tokens=n)],
                attention=[
                    Attention(
                        family=self.family,
                        cache=self.kind,
                        offset=offset,
                        q=n,
                        k=k,
                        rope=offset,
                        mask=mask,
                        **facts,
                    )
                ],
            )
        )

    def take_back(self, n: int, phase: str) -> None:
        offset = self.cache.offset
        done = self.cache.trim(n)
        layer = Attention(family=self.family, cache=self.kind, offset=offset, asked=n, done=done)
        row = Row(seq="a", asked=n, done=done)
        self.entries.append(Entry(step=len(self.entries), phase=phase, rows=[row], attention=[layer]))
        assert self.cache.offset == offset - n

    @rule(n=lengths)
    def append(self, n: int) -> None:
        self.call(n)

    @rule(times=st.integers(1, 30))
    def decode(self, times: int) -> None:
        for _ in range(times):
            self.call(1)

    @rule(n=st.integers(1, 12))
    def trim(self, n: int) -> None:
        assume(self.can_trim(n))
        self.take_back(n, "trim")

    @rule(block=st.integers(2, 6), rejected=st.integers(0, 5))
    def speculate(self, block: int, rejected: int) -> None:
        self.call(block, "verify")
        rejected = min(rejected, block - 1)
        if self.can_trim(rejected):
            self.take_back(rejected, "rollback")

    def header(self) -> Header:
        family = Family(**{"window": self.window, **self.layer} if "window" in self.layer else self.layer)
        return Header(model=Model(layers={self.family: family}), scheduler=self.scheduler)

    def teardown(self) -> None:
        report = inspected(self.header(), self.entries)
        assert report.findings == []
        assert report.summary.not_observed == 0


class Dense(OneSequence):
    pass


class Quantized(OneSequence):
    kind = "quantized"
    dim = 32

    def make(self) -> Any:
        return QuantizedKVCache(group_size=32, bits=8)

    def facts(self) -> dict[str, Any]:
        return {"kv_bits": 8}


class QuantizedLater(Quantized):
    """`maybe_quantize_kv_cache`: plain until some step, then converted in place."""

    kind = "dense"

    def make(self) -> Any:
        return KVCache()

    def facts(self) -> dict[str, Any]:
        return {"kv_bits": 8} if self.kind == "quantized" else {}

    @precondition(lambda self: self.kind == "dense")
    @rule()
    def quantize(self) -> None:
        self.cache = self.cache.to_quantized(group_size=32, bits=8)
        self.kind = "quantized"
        layer = Attention(family="full", cache="quantized", offset=self.cache.offset, kv_bits=8)
        self.entries.append(Entry(phase="quantize", rows=[Row(seq="a")], attention=[layer]))


class Rotating(OneSequence):
    kind = "rotating"
    family = "sliding"

    def make(self) -> Any:
        return RotatingKVCache(self.window)

    def facts(self) -> dict[str, Any]:
        return {"window": self.window}

    def mask(self, n: int) -> Any:
        return mask_field(self.cache.make_mask(n, window_size=self.window, return_array=False))

    def header(self) -> Header:
        return Header(model=Model(layers={"sliding": Family(attention="sliding", window=self.window)}))


class RotatingWithSinks(OneSequence):
    """The key cap of `make_prompt_cache(max_kv_size=...)`, on layers that the config calls full."""

    kind = "rotating"

    def allowed(self, window: int) -> int:
        # At or below keep + 1 the ring holds nothing but sinks, which no rule calls healthy.
        return max(window, 6)

    def make(self) -> Any:
        return RotatingKVCache(self.window, keep=4)

    def facts(self) -> dict[str, Any]:
        return {"window": self.window, "keep": 4}

    def header(self) -> Header:
        return Header(
            model=Model(layers={"full": Family(attention="full")}),
            scheduler=Scheduler(max_kv=self.window, keep=4),
        )


class Chunked(OneSequence):
    kind = "chunked"
    family = "chunked"

    def make(self) -> Any:
        return ChunkedKVCache(self.window)

    def call(self, n: int, phase: str | None = None) -> None:
        # llama4.py trims the front of every chunked layer before each forward.
        self.cache.maybe_trim_front()
        super().call(n, phase)

    def facts(self) -> dict[str, Any]:
        start = self.cache.start_position
        return {"window": self.window, "live_start": start, "live": self.cache.offset - start}

    def mask(self, n: int) -> Any:
        return UNSET

    def can_trim(self, n: int) -> bool:
        # `ChunkedKVCache.is_trimmable` (mlx_lm/models/cache.py) is always true, but after a front trim a cut
        # back into an earlier block leaves that block without its first keys: a true fault, and MD207's.
        target = self.cache.offset - n
        return super().can_trim(n) and target // self.window * self.window >= self.cache.start_position

    def header(self) -> Header:
        return Header(model=Model(layers={"chunked": Family(attention="chunked", window=self.window)}))


class Buffered(OneSequence):
    kind = "buffered"
    family = "sliding"
    slack = 4

    def make(self) -> Any:
        return BufferedRotatingKVCache(self.window, self.slack)

    def facts(self) -> dict[str, Any]:
        start = self.cache.live_start
        return {"window": self.window, "slack": self.slack, "live_start": start, "live": self.cache.live}

    def mask(self, n: int) -> Any:
        return UNSET

    def can_trim(self, n: int) -> bool:
        # What slack does not cover has been compacted away.
        kept = self.cache.live - n
        return 0 < n <= self.cache.live and kept >= min(self.cache.offset - n, self.window - 1)

    def header(self) -> Header:
        family = Family(attention="sliding", cache="buffered", window=self.window, slack=self.slack)
        return Header(model=Model(layers={"sliding": family}))


class FrontTrimmed(OneSequence):
    """The key cap of a server that trims after each step and counts positions on."""

    def allowed(self, window: int) -> int:
        return max(window, 6)

    def make(self) -> Any:
        return FrontTrimKVCache(sinks=4)

    def call(self, n: int, phase: str | None = None) -> None:
        super().call(n, phase)
        if phase != "verify" and self.cache.cap(self.window):
            self.entries.append(Entry(phase="evict", rows=[Row(seq="a")]))

    def facts(self) -> dict[str, Any]:
        return {"live_start": self.cache.live_start, "live": self.cache.live}

    def can_trim(self, n: int) -> bool:
        return 0 < n <= self.cache.live - 4

    def header(self) -> Header:
        return Header(
            model=Model(layers={"full": Family(attention="full")}), scheduler=Scheduler(max_kv=self.window)
        )


ONE_SEQUENCE = [
    Dense,
    Quantized,
    QuantizedLater,
    Rotating,
    RotatingWithSinks,
    Chunked,
    Buffered,
    FrontTrimmed,
]


@pytest.mark.parametrize("machine", ONE_SEQUENCE, ids=lambda machine: machine.__name__)
def test_a_healthy_run_of_one_sequence_returns_the_predicted_keys_and_no_finding(
    machine: type[OneSequence],
) -> None:
    run_state_machine_as_test(machine, settings=RUNS)
