"""llama.cpp's server: `slot update_slots: id N | task M | ...`, new builds behind `S.mmm.uuu L `.

`n_swa` is the window of the sliding layers, the query included, and 0 or 1 where there are none; the oldest
position held is `pos_min`. A prompt goes on from `n_past` only where `pos_min <= n_past - n_swa`: else the
server restores a checkpoint or prefills again, which is slow and right.
"""

from __future__ import annotations

import re

import msgspec

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Attention, Row

_SLOT = re.compile(r"\bslot +([\w()]{1,40}): id +(\d{1,6}) \| task +(-?\d{1,12}) +\| *(.*)")
_OTHER = re.compile(
    r"^(?:\d+\.\d+\.\d+(?:\.\d+)? [A-Z] )?"
    r"(?:srv +\w+:|llama_\w+:|load_\w+:|print_info:|que +\w+:|ggml_\w+:|main: )"
)
_FIELD = re.compile(r"\b([a-z_][\w.]{0,40}(?:\(\))?) = {1,12}(-?\d{1,12})\b")
_KEPT = re.compile(r"(?:kv cache rm|memory_seq_rm) \[(\d{1,12}), end\)")
_CHECKPOINT = re.compile(r"restored context checkpoint \(pos_min = (\d{1,12}), pos_max = (\d{1,12})")
_PROGRESS = re.compile(r"prompt (?:processing progress|processing done|processing, n_tokens|done)\b")
_FORCED = "forcing full prompt re-processing"
_MOST_SLOTS = 1024


class _Slot(msgspec.Struct):
    """What is known of a slot's present task."""

    task: int
    total: int | None = None
    past: int | None = None
    entry: int | None = None
    oldest: int | None = None
    window: int | None = None
    forced: bool = False
    at: int | None = None
    """Position of the next token."""


class LlamaCpp(Importer):
    """State: the slots."""

    name = "llama.cpp"
    program = "llama-server"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.slots: dict[int, _Slot] = {}

    def take(self, record: Record) -> int:
        if record.value is not None:
            return UNKNOWN
        found = _SLOT.search(record.text)
        if found is None:
            return KNOWN if _OTHER.match(record.text) else UNKNOWN
        ident, task, said = int(found[2]), int(found[3]), found[4]
        slot = self.slots.get(ident)
        if slot is None or slot.task != task:
            if slot is None and len(self.slots) >= _MOST_SLOTS:
                return KNOWN
            slot = self.slots[ident] = _Slot(task)
        fields = {name: number(value) for name, value in _FIELD.findall(said)}
        seq = self.draft.seq(f"slot {ident} task {task}", "task")
        return TAKEN if self._read(slot, seq, said, fields) else KNOWN

    def _read(self, slot: _Slot, seq: str | None, said: str, fields: dict[str, int | None]) -> bool:
        kept = _KEPT.search(said)
        if "new prompt" in said:
            slot.total = fields.get("n_prompt_tokens", fields.get("task.n_tokens"))
            return False
        if _FORCED in said:
            return self._force(slot, seq)
        if "pos_min" in fields and "n_swa" in fields:
            slot.past = fields.get("n_past")
            slot.entry = fields.get("cache_tokens.size()", fields.get("slot.prompt.tokens.size()"))
            slot.oldest, slot.window = fields["pos_min"], fields["n_swa"]
            return False
        checkpoint = _CHECKPOINT.search(said)
        if checkpoint:
            slot.oldest = int(checkpoint[1])
            return False
        if _PROGRESS.search(said):
            return self._piece(slot, seq, fields)
        if kept:
            return self._adopt(slot, seq, int(kept[1]))
        return False

    def _force(self, slot: _Slot, seq: str | None) -> bool:
        step = self.draft.step("adopt")
        step.rows = [
            Row(seq=seq, matched=_length(slot.past), entry=_length(slot.entry), total=_length(slot.total))
        ]
        step.refused = "full prompt re-processing: the window's keys are not held any more"
        slot.forced, slot.at, slot.oldest = True, 0, None
        return True

    def _adopt(self, slot: _Slot, seq: str | None, kept: int) -> bool:
        going_on, slot.at = slot.at == kept, kept
        if kept == 0 or slot.forced or going_on:
            return False
        entry = slot.entry if slot.entry is not None and slot.entry >= kept else None
        step = self.draft.step("adopt")
        step.rows = [
            Row(
                seq=seq,
                matched=kept if slot.past is None or slot.past < kept else slot.past,
                entry=entry,
                trimmed=None if entry is None else entry - kept,
                restored=kept,
                total=_length(slot.total),
            )
        ]
        step.infer("rows.restored", "the keys from there on were removed")
        return True

    def _piece(self, slot: _Slot, seq: str | None, fields: dict[str, int | None]) -> bool:
        """A batch was laid; its end is `n_past`, in newer builds `n_tokens`, which beside `n_past` is the
        batch's own count."""
        batch = fields.get("batch.n_tokens", fields.get("n_tokens") if "n_past" in fields else None)
        end = fields.get("n_past", fields.get("n_tokens"))
        if end is None or (slot.at is None and batch is None):
            return False
        start = slot.at if slot.at is not None else max(end - (batch or 0), 0)
        if end <= start:
            return False
        slot.at = end
        step = self.draft.step("chunk" if start else "prefill")
        step.rows = [Row(seq=seq, offset=start, tokens=end - start, total=_length(slot.total))]
        step.infer("rows.tokens", "the progress since the line before")
        if start and slot.oldest is not None and slot.oldest >= 0 and slot.window and slot.window > 1:
            step.calls = [
                Attention(
                    family=self.draft.family("sliding"), cache="static_sliding", window=slot.window,
                    offset=start, live_start=slot.oldest,
                )
            ]  # fmt: skip
            step.infer("attention.family", "n_swa and pos_min are those of the sliding layers")
            self.draft.windows.setdefault(slot.window, 1)
        slot.oldest = None
        return True


def _length(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None
