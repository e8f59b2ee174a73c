"""Cache operations as entries: the probe tells of each cache, a trace of the whole prompt cache."""

from __future__ import annotations

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.events import CacheEvent
from mlxdiag.record.lineage import Lineage
from mlxdiag.traces.types import Attention, Entry, Fault, Row

PHASES = {
    "trim": "trim",
    "finalize": "finalize",
    "filter": "filter",
    "extend": "extend",
    "extract": "extract",
    "merge": "merge",
    "to_quantized": "quantize",
}
"""What is left out moves no token of a sequence: `prepare`, and the front that a chunked cache drops."""

Verified = dict[tuple[str | None, str], int]


class Gathered:
    """One operation on all caches of a prompt cache, as it is told of cache by cache."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.events: list[CacheEvent] = []
        self.names: list[str] | None = None
        """The sequences it concerns: for a change of the batch, those in it afterwards."""
        self.model: str | None = None
        self._uids: set[int] = set()

    def takes(self, event: CacheEvent) -> bool:
        """Whether the event is a further cache of the same operation."""
        first = self.events[0]
        return (
            event.op == self.op
            and event.uid not in self._uids
            and event.asked == first.asked
            and event.rows == first.rows
            and len(event.parents) == len(first.parents)
            and event.model == first.model
        )

    def add(self, event: CacheEvent, lineage: Lineage) -> None:
        """Take an event, and let the names go where the caches go."""
        names = _names_after(event, lineage)
        if names is not None:
            lineage.bind([event.uid], names)
        if self.names is None:
            self.names, self.model = names, event.model
        self.events.append(event)
        self._uids.add(event.uid)


def entry_of(held: Gathered, verified: Verified, geometry: Geometry | None) -> Entry | None:
    """The entry; None where nothing happened that a reader must know."""
    phase = PHASES.get(held.op)
    names = held.names or []
    if phase is None or (phase == "finalize" and all(e.before == e.after for e in held.events)):
        return None
    if phase == "trim":
        return _trim(held, names, verified, geometry)
    rows = [Row(seq=seq) for seq in names]
    if phase == "merge":
        rows = _sizes(held, rows)
    calls = _quantized(held, geometry) if phase == "quantize" else None
    return Entry(phase=phase, model=held.model, rows=rows or None, attention=calls, error=_fault(held))


def _names_after(event: CacheEvent, lineage: Lineage) -> list[str] | None:
    if event.op in ("merge", "extend"):
        found = [lineage.of(uid) for uid in event.parents]
        return None if None in found else [seq for names in found for seq in names or ()]
    names = lineage.of(event.parents[0] if event.parents else event.uid)
    if names is None or event.op not in ("filter", "extract") or event.rows is None:
        return names
    return [names[row] for row in event.rows if 0 <= row < len(names)]


def _trim(held: Gathered, names: list[str], verified: Verified, geometry: Geometry | None) -> Entry | None:
    asked = held.events[0].asked or 0
    drafts = [verified.pop((held.model, seq), None) for seq in names]
    rollback = any(drafted is not None for drafted in drafts)
    if not asked and not rollback:
        return None
    done = min((e.done for e in held.events if e.done is not None), default=None)
    rows = [
        Row(
            seq=seq,
            asked=asked,
            done=done,
            drafted=drafted,
            accepted=None if drafted is None else max(drafted - asked, 0),
        )
        for seq, drafted in zip(names, drafts, strict=True)
    ]
    return Entry(
        phase="rollback" if rollback else "trim",
        model=held.model,
        rows=rows or None,
        attention=_trims(held, geometry),
        error=_fault(held),
    )


def _trims(held: Gathered, geometry: Geometry | None) -> list[Attention] | None:
    """Asked and done of each layer family, as the caches themselves report them."""
    calls: dict[tuple[object, ...], Attention] = {}
    for event in held.events:
        family = _family(event, geometry)
        calls.setdefault(
            (family, event.kind, event.done, event.slack),
            Attention(
                family=family, cache=_kind(event), asked=event.asked, done=event.done, slack=event.slack
            ),
        )
    return list(calls.values()) or None


def _quantized(held: Gathered, geometry: Geometry | None) -> list[Attention] | None:
    calls: dict[tuple[object, ...], Attention] = {}
    for event in held.events:
        family = _family(event, geometry)
        calls.setdefault(
            (family, event.kind), Attention(family=family, cache=_kind(event), kv_bits=event.kv_bits)
        )
    return list(calls.values()) or None


def _sizes(held: Gathered, rows: list[Row]) -> list[Row]:
    """Declared and real lengths, of the first cache whose two differ."""
    told = [e for e in held.events if e.declared is not None and e.sizes is not None]
    chosen = next((e for e in told if e.declared != e.sizes), told[0] if told else None)
    if chosen is None or chosen.declared is None or chosen.sizes is None:
        return rows
    names = [row.seq for row in rows] or [None] * len(chosen.declared)
    return [
        Row(seq=seq, declared=declared, size=size)
        for seq, declared, size in zip(names, chosen.declared, chosen.sizes, strict=False)
    ]


def _family(event: CacheEvent, geometry: Geometry | None) -> str | None:
    spec = geometry.layer(event.layer) if geometry is not None and event.layer is not None else None
    return spec.family if spec is not None else None


def _kind(event: CacheEvent) -> str | None:
    return event.kind if event.kind != "unknown" else None


def _fault(held: Gathered) -> Fault | None:
    text = next((event.error for event in held.events if event.error is not None), None)
    return None if text is None else Fault(text=text)
