"""Which cache each layer family runs on, read off the trace. Pure: constructors are the runner's business."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.replay.ops import CacheChoice
from mlxdiag.traces.types import Attention, Family, Trace


def choose(trace: Trace, families: dict[str, Family]) -> dict[str, CacheChoice]:
    """Families whose cache is not the one the library makes for them, with the reason.

    A continuation that returns `min(live + q, W)` keys is replayed on a cache that clamps, since no other
    cache of the table does.
    """
    chosen: dict[str, CacheChoice] = {}
    for name, family in families.items():
        calls = [a for a in _calls(trace) if a.family == name]
        kind = next((a.cache for a in calls if a.cache), None) or _declared(trace, name)
        slack = next((a.slack for a in calls if a.slack is not None), None) or family.slack or 0
        window = family.window
        if family.attention == "sliding" and window and any(_clamped(a, window) for a in calls):
            chosen[name] = CacheChoice(
                "clamped", why="it stores and returns only the last W keys, as before the returned-key fix"
            )
        elif kind == "buffered":
            chosen[name] = CacheChoice(
                "buffered",
                slack or 32,
                why="a ring that keeps speculative tokens uncompacted; the library has none",
            )
        elif family.attention == "sliding" and kind == "dense":
            chosen[name] = CacheChoice("dense", why="a server that keeps every key of a sliding layer")
        elif kind == "rotating" and _pinned(trace, name) and _limit(trace):
            chosen[name] = CacheChoice(
                "capped",
                sinks=_pinned(trace, name),
                cap=_limit(trace),
                why="the library's own key cap, make_prompt_cache(max_kv_size)",
            )
        elif family.attention == "full" and _capped(trace, name) and kind in (None, "dense"):
            chosen[name] = CacheChoice(
                "front_trim",
                why="keys beyond the cap are dropped at the front; the library has no such cache",
            )
    return chosen


def _limit(trace: Trace) -> int:
    """The scheduler's key cap, 0 for none."""
    scheduler = trace.header.scheduler
    return (scheduler.max_kv or 0) if scheduler is not None else 0


def _calls(trace: Trace) -> Iterator[Attention]:
    for entry in trace.entries:
        yield from entry.attention or []


def _declared(trace: Trace, name: str) -> str | None:
    family = _family(trace, name)
    return family.cache if family is not None else None


def _pinned(trace: Trace, name: str) -> int:
    """Sinks that the trace's model says its caches keep: the mark of the library's own cap."""
    family = _family(trace, name)
    return (family.keep or 0) if family is not None else 0


def _family(trace: Trace, name: str) -> Family | None:
    layers = trace.header.model.layers if trace.header.model else None
    for entry in trace.entries:
        layers = entry.layers or layers
    return layers.get(name) if layers else None


def _capped(trace: Trace, name: str) -> bool:
    """A ring drops its oldest keys by nature; only a cache that keeps all shows a cap by doing so."""
    capped = trace.header.scheduler is not None and trace.header.scheduler.max_kv is not None
    capped = capped or any(entry.kind == "evict" and entry.refused is None for entry in trace.entries)
    calls = (a for a in _calls(trace) if a.family in (None, name) and a.cache in (None, "dense"))
    return capped or any(a.live_start for a in calls)


def _clamped(call: Attention, window: int) -> bool:
    offset = call.cursor if call.cursor is not None else call.offset
    if not isinstance(offset, int) or not isinstance(call.k, int) or call.q is None or call.q < 2:
        return False
    if call.cache not in (None, "rotating") or not offset:
        return False
    due = min(offset, window - 1) + call.q
    return call.k != due and call.k == min(offset + call.q, window)
