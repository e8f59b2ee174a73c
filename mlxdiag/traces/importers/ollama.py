"""ollama's own log: `time= level= source= msg= key=value`; its MLX runner prints each ring at TRACE."""

from __future__ import annotations

import re

from mlxdiag.traces.importers.draft import Draft, Step, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Attention, Row

_HEAD = re.compile(r"\btime=\d{4}-\d\d-\d\dT\S{1,40} level=[A-Z]{1,8}(?:[+-]\d)? ")
_GIN = re.compile(r"^\[GIN\] ")
_FIELD = re.compile(r"\b([a-z_]{1,30})=(\"(?:[^\"\\]|\\.){0,4000}\"|\S{1,200})")
_UPDATE = re.compile(r"\(\*(\w{0,40}Cache)\)\.(?:[uU]pdate|concat)")
_AXES = re.compile(r"\d{1,12}")
_LIMIT = "token repeat limit reached"


class Ollama(Importer):
    """State: the forward that ring lines are being added to.

    Lines of one forward have one offset. A line that goes on by as many tokens as were fed begins the next;
    any other offset among them is a layer out of step.
    """

    name = "ollama"
    program = "ollama"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.step: Step | None = None
        self.offset = 0
        self.fed = 0

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None or not _HEAD.search(text):
            return KNOWN if record.value is None and _GIN.match(text) else UNKNOWN
        fields = dict(_FIELD.findall(text))
        update = _UPDATE.search(text)
        if update:
            return TAKEN if self._update(update[1], fields) else KNOWN
        if _LIMIT in text:
            step = self.draft.step("decode")
            step.rows = [Row(finish="repetition")]
            return TAKEN
        if "loading cache slot" in fields.get("msg", ""):
            return TAKEN if self._load(fields) else KNOWN
        return KNOWN

    def _update(self, cache: str, fields: dict[str, str]) -> bool:
        axes = [int(part) for part in _AXES.findall(fields.get("keys_dim", ""))]
        offset, size = number(fields.get("offset")), number(fields.get("max_size"))
        if len(axes) != 4 or offset is None or offset < 0 or axes[2] < 1:
            return False
        q = axes[2]
        if self.step is None or q != self.fed or offset == self.offset + q or offset == 0 != self.offset:
            self.step = self.draft.step("decode" if q == 1 else "chunk" if offset else "prefill")
            self.step.infer("attention.offset", "the state before the call")
            self.step.infer("rows.tokens", "the third axis of the keys")
            self.step.rows = [Row(offset=offset, tokens=q)]
            self.offset, self.fed = offset, q
        ring = size is not None and size > 0
        call = Attention(
            family=self.draft.family("sliding" if ring else "full"),
            cache="rotating" if ring else "dense",
            window=size if ring else None,
            offset=offset,
            q=q,
        )
        if ring and size is not None:
            self.draft.windows.setdefault(size, 1)
        if call not in self.step.calls and len(self.step.calls) < 64:
            self.step.calls = [*self.step.calls, call]
        return True

    def _load(self, fields: dict[str, str]) -> bool:
        """A stored prefix is used: `cache` tokens held, `used` of them match."""
        held, used, prompt = (number(fields.get(name)) for name in ("cache", "used", "prompt"))
        if used is None or used < 1 or held is None or held < used:
            return False
        step = self.draft.step("adopt")
        step.rows = [Row(matched=used, entry=held, trimmed=held - used, restored=used, total=prompt)]
        step.infer("rows.restored", "the tokens that are used")
        return True
