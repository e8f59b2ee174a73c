"""What the tests on real caches share: how long they run, and how a cache is asked and a trace judged."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from mlxdiag.inspect.findings import Report
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.traces.types import Entry, Header

RUNS = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# Small windows more often: their edges are then met by chance.
windows = st.one_of(st.integers(1, 8), st.integers(1, 64))
lengths = st.one_of(st.just(1), st.integers(2, 9), st.integers(10, 90))


def keys_of(returned: Any) -> int:
    """Key axis of what a cache returned; a quantised cache returns triples."""
    keys = returned[0]
    return int((keys[0] if isinstance(keys, tuple | list) else keys).shape[2])


def new_tokens(batch: int, n: int, dim: int = 4) -> mx.array:
    return mx.zeros((batch, 1, n, dim))


def mask_field(mask: Any) -> Any:
    return mask if mask is None or isinstance(mask, str) else tuple(mask.shape)


def inspected(header: Header, entries: list[Entry]) -> Report:
    inspector = Inspector(header)
    for entry in entries:
        inspector.feed(entry)
    return inspector.close()
