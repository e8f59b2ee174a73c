"""What the probe saw, as entries of a trace."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from mlxdiag import __version__
from mlxdiag.inspect import visibility
from mlxdiag.models.adapter import Geometry, Instance
from mlxdiag.models.attention_entries import to_attention
from mlxdiag.models.events import AttentionEvent, CacheEvent, Seen, StepEvent
from mlxdiag.models.identity import AMBIGUOUS, PADDING, UNKNOWN
from mlxdiag.replay import tape
from mlxdiag.replay.ops import Adopt, CacheChoice, Cut, Event, Evict, Forward, Op, Regroup
from mlxdiag.traces.types import Attention, Entry, Fault, Header, Mask, Output, Row

if TYPE_CHECKING:
    from mlxdiag.replay.run import Runner

SHAPES = re.compile(r"\((\d+(?:,\d+)*,?)\)")


def header(runner: Runner) -> Header:
    """Where the replayed trace comes from, and what was planted in it."""
    plan = runner.plan
    scheduler = msgspec.structs.replace(plan.scheduler, misfit=runner.policy)
    return Header(
        source={"program": "mlxdiag replay", "version": __version__, "of": plan.source},
        environment={
            "os": f"{platform.system()} {platform.release()}",
            "device": runner.instance.device,
            **_implementation(runner.instance),
            "libraries": dict(_libraries(runner.library.distributions)),
        },
        scheduler=scheduler,
        planted="; ".join(plan.planted) or None,
        level=runner.level,
    )


def _implementation(instance: Instance) -> dict[str, str]:
    """Of a library that has several: which attention implementation ran."""
    name = getattr(instance, "attention", None)
    return {"attention": name} if isinstance(name, str) else {}


@cache
def _libraries(distributions: tuple[str, ...]) -> dict[str, str]:
    return {name: metadata.version(name) for name in distributions}


def forward(op: Forward, step: int, event: StepEvent | None, runner: Runner) -> Entry:
    """The entry of one forward, before its output is known."""
    announced = op.batched or op.finalize_pending
    rows = [
        Row(
            seq=feed.seq,
            offset=feed.believed if feed.believed is not None else _offset(runner, feed.seq),
            tokens=feed.tokens,
            padded=feed.tokens + feed.right if feed.right and not announced else None,
            left_padding=feed.left if op.batched and feed.left else None,
            right_padding=feed.right if announced and feed.right else None,
        )
        for feed in op.feeds
    ]
    return Entry(
        step=step,
        phase=op.phase,
        rows=rows,
        mask=_handed(op),
        attention=_attention(event, op, runner) if event is not None else None,
        note=_note(op, event),
    )


def _note(op: Forward, event: StepEvent | None) -> str | None:
    """What a reader must know of this step beside its numbers."""
    said = [op.assumed] if op.assumed else []
    layers = [str(e.layer) for e in event.attention if untold(e)] if event is not None else []
    if layers:
        said.append(f"layers {', '.join(layers)}: visibility not observed, their keys cannot be told apart")
    return "; ".join(said) or None


def _offset(runner: Runner, seq: str) -> int:
    held = runner.tapes.get(seq)
    return held.offset if held is not None else 0


def _handed(op: Forward) -> Mask | None:
    if not op.callers:
        return None
    caller = op.callers[0]
    return Mask(
        shape=caller.shape,
        offset=caller.offset,
        source=caller.source,
        builder=caller.builder,
        family=caller.family,
    )


def _attention(step: StepEvent, op: Forward, runner: Runner) -> list[Attention]:
    """One entry per group of layers whose calls were equal, in the order of their first layer."""

    alike: dict[Any, dict[str, Any]] = {}

    def observed(event: AttentionEvent) -> dict[str, Any]:
        decision = runner.consumer.decisions.get(id(event))
        crop = {"crop": decision.crop} if decision is not None and decision.crop else {}
        key = _same_view(event, runner)
        if key not in alike:
            alike[key] = _visible(event, op, runner)
        return {**crop, **alike[key]}

    geometry = runner.instance.geometry
    return to_attention([e for e in step.attention if not _opaque(e, geometry)], geometry, observed)


def _opaque(event: AttentionEvent, geometry: Geometry) -> bool:
    """A call over keys picked for each query, or made by no layer: nothing follows from its shapes."""
    spec = geometry.layer(event.layer) if event.layer is not None else None
    if spec is not None:
        return spec.softmax == "opaque"
    return any(layer.softmax == "opaque" for layer in geometry.layers)


def _same_view(event: AttentionEvent, runner: Runner) -> Any:
    """Equal for calls of one step that see the same keys and must see the same."""
    seen = event.seen
    spec = runner.instance.geometry.layer(event.layer) if event.layer is not None else None
    if seen is None or spec is None:
        return None
    shown = (seen.mask.shape, seen.mask.tobytes(), seen.key_seq.tobytes(), seen.key_pos.tobytes())
    return spec.family, spec.attention, spec.window, event.live_start, event.keep, shown


def _visible(event: AttentionEvent, op: Forward, runner: Runner) -> dict[str, Any]:
    """The visibility fields, by true position; nothing where the masks were not read."""
    seen = event.seen
    spec = runner.instance.geometry.layer(event.layer) if event.layer is not None else None
    if seen is None or spec is None or spec.attention not in ("full", "sliding", "chunked"):
        return {}
    if untold(event):
        return {}
    key_seq, key_pos = seen.key_seq.copy(), tape_positions(seen.key_pos)
    for row, feed in enumerate(op.feeds):
        held = runner.tapes.get(feed.seq)
        own = set(held.held if held is not None else ()) | set(feed.codes)
        number = runner.numbers[feed.seq]
        mine = key_seq[row] == number
        stale = mine & ~np.isin(seen.key_pos[row], np.fromiter(own, dtype=np.int64))
        key_seq[row, stale] = PADDING
    q = seen.query_pos.shape[1]
    choice = runner.plan.caches.get(spec.family)
    if choice is not None and choice.kind == "capped":
        return _capped(seen, key_seq, key_pos, choice)
    dropped = (event.live_start or 0) if spec.attention == "full" else 0
    sinks = runner.sinks if dropped else 0
    return visibility.observe(
        seen.mask,
        key_seq,
        key_pos,
        np.repeat(np.asarray(seen.query_seq)[:, None], q, axis=1),
        tape_positions(seen.query_pos),
        seen.query_real,
        kind=spec.attention,
        window=spec.window,
        live_start=dropped + sinks,
        keep=sinks or event.keep or 0,
    )


def _capped(seen: Seen, key_seq: Any, key_pos: Any, choice: CacheChoice) -> dict[str, Any]:
    """Under the library's own key cap: the newest keys that a single token would still find must be seen.

    What lies between those and the cap is seen or not with the length of the call, and the pinned sinks with
    the column that they stand in: both are allowed and not required.
    """
    queries = tape_positions(seen.query_pos)
    newest, age = choice.cap - choice.sinks, queries[:, :, None] - key_pos[:, None, :]
    optional = (age >= newest) & (age < choice.cap) & (key_seq >= 0)[:, None, :]
    return visibility.observe(
        np.broadcast_to(seen.mask, optional.shape) & ~optional,
        key_seq,
        key_pos,
        np.repeat(np.asarray(seen.query_seq)[:, None], queries.shape[1], axis=1),
        queries,
        seen.query_real,
        kind="sliding",
        window=newest,
        keep=choice.sinks,
    )


def untold(event: AttentionEvent) -> int:
    """Keys that cannot be told by their content: equal ones, as after a NaN, or ones never seen appended."""
    if event.seen is None:
        return 0
    return int(np.isin(event.seen.key_seq, (UNKNOWN, AMBIGUOUS)).sum())


def tape_positions(codes: Any) -> Any:
    """True positions int `[...]` of token codes; negative codes stay as they are."""
    at = np.asarray(codes, dtype=np.int64)
    return np.where(at < 0, at, at & ((1 << tape.BITS) - 1))


def with_output(entry: Entry, output: list[Output]) -> Entry:
    return msgspec.structs.replace(entry, output=output)


def failed(entry: Entry, error: Exception) -> Entry:
    """The entry with what the program would have printed."""
    text = str(error) or type(error).__name__
    shapes = [tuple(int(n) for n in found.split(",") if n) for found in SHAPES.findall(text)]
    fault = Fault(text=text, shapes=shapes or None, where="attention" if entry.attention else None)
    return msgspec.structs.replace(entry, error=fault)


def event(op: Op, step: int, events: list[CacheEvent], instance: Instance) -> Entry:
    """The entry of a cache event."""
    makers: dict[type, Callable[[Any], tuple[str, list[Row]]]] = {
        Cut: lambda o: _cut(o, events),
        Evict: lambda o: ("evict", [Row(seq=seq, size=o.cap) for seq in o.seqs]),
        Adopt: _adopt,
        Regroup: lambda o: (o.phase, [Row(seq=seq) for seq in o.seqs]),
        Event: lambda o: (o.phase, [Row(seq=seq) for seq in o.seqs]),
    }
    phase, rows = makers[type(op)](op)
    calls = _trims(op, events, instance.geometry) if isinstance(op, Cut) else None
    return Entry(step=step, phase=phase, rows=rows, attention=calls)


def _cut(op: Cut, events: list[CacheEvent]) -> tuple[str, list[Row]]:
    """`done` is the least that any layer gave back; a library that refuses calls no cache at all."""
    # Layers without a counter cannot tell, and say nothing against those that can.
    told = [e for e in events if e.op == "trim" and (e.done is not None or e.error is not None)]
    found = [e.done or 0 for e in told]
    done = min(found, default=0)
    if op.kept and "" not in op.kept:
        done = max(found, default=0)  # one layer's count, as the recorded program took it for all
    return op.phase, [Row(seq=seq, asked=op.tokens, done=done) for seq in op.seqs]


def _adopt(op: Adopt) -> tuple[str, list[Row]]:
    restored = op.entry - op.trimmed
    row = Row(seq=op.seq, matched=op.matched, entry=op.entry, trimmed=op.trimmed, restored=restored)
    return "adopt", [row]


def restored(entry: Entry, tokens: int) -> Entry:
    """An adopt entry with what the store says of its length."""
    rows = [msgspec.structs.replace(row, restored=tokens) for row in entry.rows or []]
    return msgspec.structs.replace(entry, rows=rows)


def _trims(op: Cut, events: list[CacheEvent], geometry: Geometry) -> list[Attention] | None:
    """Asked and done of each layer family, as the caches themselves report them."""
    calls: dict[tuple[str | None, int | None, int | None], Attention] = {}
    for seen in events:
        if seen.op != "trim":
            continue
        spec = geometry.layer(seen.layer) if seen.layer is not None else None
        family = spec.family if spec is not None else None
        calls.setdefault(
            (family, seen.asked, seen.done),
            Attention(
                family=family,
                cache=seen.kind,
                asked=op.tokens if op.kept else seen.asked,
                done=seen.done,
                slack=seen.slack,
            ),
        )
    return list(calls.values()) or None
