"""JSON dumps of scheduler steps: events of type `scheduler_output`, in a list or one a line.

Ids of prompts, which such dumps hold, are not looked at.
"""

from __future__ import annotations

from typing import Any

from mlxdiag.traces.importers import packed
from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Row


class JsonSteps(Importer):
    """Counts what each request was fed, since a step names only how many tokens come next."""

    name = "json-steps"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.fed: dict[str, int] = {}
        self.totals: dict[str, int] = {}

    def take(self, record: Record) -> int:
        value = record.value
        events = value.get("events") if isinstance(value, dict) else value
        if isinstance(value, dict) and not isinstance(events, list):
            events = [value]
        if not isinstance(events, list):
            return UNKNOWN
        return max((self._event(event) for event in events if isinstance(event, dict)), default=UNKNOWN)

    def _event(self, event: dict[str, Any]) -> int:
        payload = event.get("payload")
        if not isinstance(event.get("type"), str) or not isinstance(payload, dict):
            return UNKNOWN
        if event["type"] != "scheduler_output":
            return KNOWN
        self._new(payload)
        self._cached(payload)
        scheduled = payload.get("num_scheduled_tokens")
        counts = scheduled if isinstance(scheduled, dict) else {}
        rows = []
        for name, told in list(counts.items())[: packed.MOST_ROWS]:
            tokens = number(told) if isinstance(told, int) else None
            if tokens is not None and tokens >= 0:
                rows.append(self._row(name, tokens))
        self._forget(payload)
        return TAKEN if packed.write(self.draft, rows) else KNOWN

    def _row(self, name: str, tokens: int) -> Row:
        offset, total = self.fed.get(name), self.totals.get(name)
        if offset is not None:
            self.fed[name] = offset + tokens
        phase = packed.phase_of(tokens, offset, total)
        seq = self.draft.seq(name)
        return Row(seq=seq, phase=phase, offset=offset, tokens=tokens, scheduled=tokens, total=total)

    def _new(self, payload: dict[str, Any]) -> None:
        """Requests that begin: what they have already, and how long their prompt is."""
        listed = payload.get("scheduled_new_requests", payload.get("scheduled_new_reqs"))
        for one in listed if isinstance(listed, list) else ():
            name = _name(one)
            if name is None:
                continue
            computed, length = number(one.get("num_computed_tokens")), number(one.get("prompt_len"))
            self.fed[name] = max(computed or 0, 0)
            if length is not None and length > 0:
                self.totals[name] = length

    def _cached(self, payload: dict[str, Any]) -> None:
        """Requests that go on, where the dump says from where."""
        listed = payload.get("scheduled_cached_requests", payload.get("scheduled_cached_reqs"))
        for one in listed if isinstance(listed, list) else ():
            name = _name(one)
            computed = number(one.get("num_computed_tokens")) if name is not None else None
            if name is not None and computed is not None:
                self.fed[name] = max(computed, 0)

    def _forget(self, payload: dict[str, Any]) -> None:
        ended = payload.get("finished_request_ids", payload.get("finished_req_ids"))
        for name in ended if isinstance(ended, list) else ():
            if isinstance(name, str):
                self.fed.pop(name, None)
                self.totals.pop(name, None)


def _name(one: object) -> str | None:
    if not isinstance(one, dict):
        return None
    name = one.get("req_id", one.get("request_id"))
    return name if isinstance(name, str) else None
